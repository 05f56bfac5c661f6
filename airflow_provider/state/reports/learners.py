"""Learner tasks: who learns them, who owns them, their progress. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any, Final

from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import TaskId, WorkerId

_TOO_LONG: Final = "it took longer than the timeout of learners"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerTask:
    """A task that a worker learns.

    :param learner: the worker that learns it
    :param learned: its owner meanwhile; None: it has none
    :param progress: from 0 to 1
    :param ready: whether it may move now
    :param failed: whether it can't be made ready there
    """

    task: TaskId
    learner: WorkerId
    learned: WorkerId | None
    progress: float
    ready: bool
    failed: bool = False

    @property
    def state(self) -> str:
        return "failed" if self.failed else "ready" if self.ready else "warming"

    @property
    def percent(self) -> int:
        """The progress, rounded down: a task with 100 is ready, or about to be."""
        return floor(100 * self.progress)

    @property
    def how_far(self) -> str:
        """As in "warming, 42 %", "ready" or "failed"."""
        return self.state if self.ready or self.failed else f"{self.state}, {self.percent} %"

    def in_words(self, label: Callable[[TaskId], str] = str) -> str:
        """As in "w2 learns ingest:3 of w1 (warming, 42 %)"."""
        whose = f" of {self.learned}" if self.learned else ", which nobody has"
        return f"{self.learner} learns {label(self.task)}{whose} ({self.how_far})"

    def to_json(self) -> dict[str, Any]:
        return {
            "task": [self.task.job, self.task.index],
            "learner": self.learner,
            "learned": self.learned,
            "state": self.state,
            "progress": self.progress,
            "ready": self.ready,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LearnerTask:
        """The inverse of :meth:`to_json`."""
        return cls(
            task=TaskId(*data["task"]),
            learner=data["learner"],
            learned=data["learned"],
            progress=data["progress"],
            ready=data["ready"],
            failed=data["state"] == "failed",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A task that stays where it is, since it could not be made ready elsewhere, or not in time.

    :param learner: the worker that tried to learn it
    :param learned: its owner; None: it has none
    :param error: why its warm-up failed, or that it took too long; empty: the learner's record does not say any more
    """

    task: TaskId
    learner: WorkerId
    learned: WorkerId | None
    error: str = ""

    def in_words(self, label: Callable[[TaskId], str] = str) -> str:
        """As in "w2 could not make ready ingest:3, which stays at w1: no such table"."""
        whose = f", which stays at {self.learned}" if self.learned else ""
        return f"{self.learner} could not make ready {label(self.task)}{whose}{f': {self.error}' if self.error else ''}"

    def to_json(self) -> dict[str, Any]:
        return {
            "task": [self.task.job, self.task.index],
            "learner": self.learner,
            "learned": self.learned,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GivenUp:
        """The inverse of :meth:`to_json`."""
        return cls(task=TaskId(*data["task"]), learner=data["learner"], learned=data["learned"], error=data["error"])


def learners(status: StatusSnapshot) -> tuple[LearnerTask, ...]:
    """All learner tasks of a group, sorted: what its leader lets workers learn, with the progress that these report."""
    record = status.group
    if record is None:
        return ()
    found = []
    for worker, tasks in record.learning.items():
        said = status.workers.get(worker)
        if said is not None and said.state is WorkerPhase.LEFT:
            continue
        lessons = {} if said is None else {lesson.task: lesson for lesson in said.learning}
        failed = _errors(status, worker)
        for task in tasks:
            lesson = lessons.get(task)
            found.append(
                LearnerTask(
                    task=task,
                    learner=worker,
                    learned=status.owner_of(task),
                    progress=0.0 if lesson is None else lesson.progress,
                    ready=lesson is not None and lesson.ready,
                    failed=task in failed,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.task, one.learner)))


def given_up(status: StatusSnapshot) -> tuple[GivenUp, ...]:
    record = status.group
    found = [
        GivenUp(task=task, learner=worker, learned=status.owner_of(task), error=errors.get(task, otherwise))
        for worker, tasks in ({} if record is None else record.given_up).items()
        for errors, otherwise in ((_errors(status, worker), _without_error(status, worker)),)
        for task in tasks
    ]
    return tuple(sorted(found, key=lambda one: (one.task, one.learner)))


def _without_error(status: StatusSnapshot, worker: WorkerId) -> str:
    """Why a task was given up for which this worker reports no error: it took too long. Empty if the worker may have
    forgotten an error, because it has returned without a round.
    """
    said = status.workers.get(worker)
    known = said is not None and status.group is not None and status.group.members.get(worker) == said.member_id
    return _TOO_LONG if known else ""


def _errors(status: StatusSnapshot, worker: WorkerId) -> Mapping[TaskId, str]:
    """The errors of this worker's failed warm-ups."""
    said = status.workers.get(worker)
    return {} if said is None else {failed.task: failed.error for failed in said.failed_warm_ups}


def by_owner(all_learners: Iterable[LearnerTask]) -> Mapping[WorkerId, list[LearnerTask]]:
    owned: defaultdict[WorkerId, list[LearnerTask]] = defaultdict(list)
    for learner in all_learners:
        if learner.learned is not None:
            owned[learner.learned].append(learner)
    return owned


def by_learner(all_learners: Iterable[LearnerTask]) -> Mapping[WorkerId, list[LearnerTask]]:
    learning: defaultdict[WorkerId, list[LearnerTask]] = defaultdict(list)
    for learner in all_learners:
        learning[learner.learner].append(learner)
    return learning
