"""The learner tasks of one worker: it warms them up while another worker has them, or until it has a slot for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from airflow_provider.state.records import TaskWork
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.retry_pauses import conflict_pause_ms, doubling_ms

ALMOST: Final = 0.99
"""The highest progress of a warm-up that is not done."""
_FIRST_WAIT_MS: Final = 5_000
_LONGEST_WAIT_MS: Final = 300_000
_MOST_FAILURES: Final = 3
"""How often a warm-up may fail in a row: its data may be unavailable for a moment."""


class LearnerState(str, Enum):
    """Where a learner task is in this worker."""

    WAITING = "waiting"
    """Waits for its warm-up to begin, or to begin again after a failure or after Spark's end."""
    WARMING = "warming"
    READY = "ready"
    FAILED = "failed"
    """Its warm-up has failed too often. The leader will end the lesson."""

    @property
    def with_runner(self) -> bool:
        """Whether a runner has a warm-up of it."""
        return self in (LearnerState.WARMING, LearnerState.READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerTask:
    """A learner task in this worker.

    :param work: what it is warmed up for; None: unknown, the jobs topic has not been read so far
    :param progress: from 0 to 1, and 1 when it is ready
    :param failures: how often its warm-up has failed in a row
    :param spark_deaths: how often Spark has ended during its warm-up
    :param conflicts: how often in a row its warm-up has met another writer
    :param not_before_ms: start its warm-up no sooner (monotonic milliseconds)
    :param began_ms: when its first warm-up began (monotonic milliseconds)
    :param taken: whether it has moved here and waits for a slot: nobody waits for its warm-up any more
    """

    task: TaskId
    work: TaskWork | None
    state: LearnerState = LearnerState.WAITING
    progress: float = 0.0
    failures: int = 0
    spark_deaths: int = 0
    conflicts: int = 0
    not_before_ms: int = 0
    began_ms: int | None = None
    taken: bool = False

    def again(self, *, now_ms: int, failures: int = 0, spark_deaths: int = 0) -> LearnerTask:
        """To be warmed up again. There is no wait after Spark's first end, which may have had another cause."""
        tries = self.failures + failures + max(0, self.spark_deaths + spark_deaths - 1)
        wait_ms = doubling_ms(_FIRST_WAIT_MS, tries, _LONGEST_WAIT_MS) if tries else 0
        return replaced(
            self,
            state=LearnerState.WAITING,
            progress=0.0,
            failures=self.failures + failures,
            spark_deaths=self.spark_deaths + spark_deaths,
            conflicts=0,
            not_before_ms=now_ms + wait_ms,
        )

    def after_conflict(self, *, now_ms: int) -> LearnerTask:
        """To be warmed up again when the other writer may be over. This is no failure of the warm-up."""
        again, conflicts = self.again(now_ms=now_ms), self.conflicts + 1
        return replaced(again, conflicts=conflicts, not_before_ms=now_ms + conflict_pause_ms(conflicts))

    @property
    def fails_for_good(self) -> bool:
        return self.failures >= _MOST_FAILURES


@dataclass(slots=True)
class Learners:
    """The learner tasks; a worker has a few at the same time.

    :param failed: why warm-ups have failed for good here. Kept after the lesson has ended, until the worker gets the
        task or learns it again
    :param deaths: how often this worker's process has ended during a warm-up. Kept until something else happens to the
        task here
    """

    tasks: dict[TaskId, LearnerTask] = field(default_factory=dict)
    failed: dict[TaskId, str] = field(default_factory=dict)
    deaths: dict[TaskId, int] = field(default_factory=dict)

    def state_of(self, task: TaskId) -> LearnerState | None:
        """None: it is not a learner task here."""
        learner = self.tasks.get(task)
        return None if learner is None else learner.state

    @property
    def progress(self) -> Mapping[TaskId, float]:
        """The progress of those that another worker has."""
        return {task: learner.progress for task, learner in self.tasks.items() if not learner.taken}

    @property
    def taken(self) -> Tasks:
        return frozenset(task for task, learner in self.tasks.items() if learner.taken)

    @property
    def with_runner(self) -> Tasks:
        """Those of which a runner has a warm-up."""
        if not self.tasks:  # as nearly always
            return NO_TASKS
        return frozenset(task for task, learner in self.tasks.items() if learner.state.with_runner)

    def due(self, *, now_ms: int) -> list[TaskId]:
        """Those whose warm-up may begin."""
        waiting = (learner for learner in self.tasks.values() if _waits(learner))
        return sorted(learner.task for learner in waiting if learner.not_before_ms <= now_ms)

    def next_due_ms(self, *, now_ms: int) -> int | None:
        """When another may begin (monotonic milliseconds); None also if some may now."""
        later = (learner.not_before_ms for learner in self.tasks.values() if _waits(learner))
        return min((at for at in later if at > now_ms), default=None)


def _waits(learner: LearnerTask) -> bool:
    return learner.state is LearnerState.WAITING and learner.work is not None
