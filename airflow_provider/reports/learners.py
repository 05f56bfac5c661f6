"""What is made ready somewhere before it moves there: who learns it, whose it is, how far it is. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any, Final

from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.records import WorkerPhase

_TOO_LONG: Final = "it took longer than learner_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerTask:
    """A task that a worker learns.

    :param learner: who learns it
    :param learned: whose it is meanwhile; None: nobody's
    :param progress: how far it is, from 0 to 1
    :param ready: it may move now
    :param failed: it can't be made ready there
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
        """Rounded down: what has 100 is ready, or about to be."""
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
    """A task that is left where it is, since it could not be made ready elsewhere, or not in time.

    :param learner: who has learned it in vain
    :param learned: whose it is; None: nobody's
    :param error: why its warm-up failed, or that it took too long; empty: the learner's record tells nothing of it any
        more
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
    """All of a group, by task: what its leader has them learn, and how far they say they are."""
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
    """All of a group, by task."""
    record = status.group
    found = [
        GivenUp(task=task, learner=worker, learned=status.owner_of(task), error=errors.get(task, otherwise))
        for worker, tasks in ({} if record is None else record.given_up).items()
        for errors, otherwise in ((_errors(status, worker), _without_error(status, worker)),)
        for task in tasks
    ]
    return tuple(sorted(found, key=lambda one: (one.task, one.learner)))


def _without_error(status: StatusSnapshot, worker: WorkerId) -> str:
    """Why something was given up that this worker names no error of. One that came back without a round may have
    forgotten the error.
    """
    said = status.workers.get(worker)
    known = said is not None and status.group is not None and status.group.members.get(worker) == said.member_id
    return _TOO_LONG if known else ""


def _errors(status: StatusSnapshot, worker: WorkerId) -> Mapping[TaskId, str]:
    """Why this worker's warm-ups failed for good."""
    said = status.workers.get(worker)
    return {} if said is None else {failed.task: failed.error for failed in said.failed_warm_ups}


def by_owner(all_learners: Iterable[LearnerTask]) -> Mapping[WorkerId, list[LearnerTask]]:
    """What is being learned, by whose it is."""
    owned: defaultdict[WorkerId, list[LearnerTask]] = defaultdict(list)
    for learner in all_learners:
        if learner.learned is not None:
            owned[learner.learned].append(learner)
    return owned


def by_learner(all_learners: Iterable[LearnerTask]) -> Mapping[WorkerId, list[LearnerTask]]:
    """What is being learned, by who learns it."""
    learning: defaultdict[WorkerId, list[LearnerTask]] = defaultdict(list)
    for learner in all_learners:
        learning[learner.learner].append(learner)
    return learning
