"""The learner tasks of one worker: what it makes ready to run, while another has it or until it has a slot for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from airflow_provider.protocol.model import TaskId, Tasks
from airflow_provider.protocol.replacing import replaced
from airflow_provider.records import TaskWork

ALMOST: Final = 0.99
"""The most that a warm-up has done before its end."""
_FIRST_WAIT_MS: Final = 5_000
_LONGEST_WAIT_MS: Final = 300_000
_MOST_FAILURES: Final = 3
"""So often a warm-up may fail in a row: what it reads may be away for a moment."""


class LearnerState(str, Enum):
    """Where a learner task is in this worker."""

    WAITING = "waiting"
    """For its warm-up to begin, or to begin again: after a failure for a while, after Spark's end for another Spark."""
    WARMING = "warming"
    READY = "ready"
    FAILED = "failed"
    """Its warm-up has failed too often: the leader lets go of it."""

    @property
    def with_runner(self) -> bool:
        """Whether a runner has something of it."""
        return self in (LearnerState.WARMING, LearnerState.READY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerTask:
    """A learner task in this worker.

    :param work: what it is to be ready for; None while the jobs topic does not say
    :param progress: from 0 to 1, and 1 when it is ready
    :param failures: how often its warm-up has failed in a row
    :param spark_deaths: how often Spark has ended under it
    :param not_before_ms: its warm-up begins no sooner (monotonic milliseconds)
    :param began_ms: when its first warm-up began (monotonic milliseconds)
    :param taken: it has moved here, and waits for its turn: nobody waits for its warm-up any more
    """

    task: TaskId
    work: TaskWork | None
    state: LearnerState = LearnerState.WAITING
    progress: float = 0.0
    failures: int = 0
    spark_deaths: int = 0
    not_before_ms: int = 0
    began_ms: int | None = None
    taken: bool = False

    def again(self, *, now_ms: int, failures: int = 0, spark_deaths: int = 0) -> LearnerTask:
        """To be warmed up once more. The first death of Spark may have been another's fault: nobody waits for that."""
        tries = self.failures + failures + max(0, self.spark_deaths + spark_deaths - 1)
        wait_ms = min(_FIRST_WAIT_MS << min(tries - 1, 10), _LONGEST_WAIT_MS) if tries else 0
        return replaced(
            self,
            state=LearnerState.WAITING,
            progress=0.0,
            failures=self.failures + failures,
            spark_deaths=self.spark_deaths + spark_deaths,
            not_before_ms=now_ms + wait_ms,
        )

    @property
    def fails_for_good(self) -> bool:
        return self.failures >= _MOST_FAILURES


@dataclass(slots=True)
class Learners:
    """The learner tasks by task; a worker has a few of them at the same time.

    :param failed: why warm-ups have failed here for good, also when the leader has let go of them: until the worker has
        the task, or learns it again
    :param deaths: how often this worker's process has ended under a warm-up, as long as nothing else has become of the
        task here
    """

    tasks: dict[TaskId, LearnerTask] = field(default_factory=dict)
    failed: dict[TaskId, str] = field(default_factory=dict)
    deaths: dict[TaskId, int] = field(default_factory=dict)

    def state_of(self, task: TaskId) -> LearnerState | None:
        """None: it is no learner task here."""
        learner = self.tasks.get(task)
        return None if learner is None else learner.state

    @property
    def progress(self) -> Mapping[TaskId, float]:
        """How far those are that another worker has."""
        return {task: learner.progress for task, learner in self.tasks.items() if not learner.taken}

    @property
    def taken(self) -> Tasks:
        return frozenset(task for task, learner in self.tasks.items() if learner.taken)

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
