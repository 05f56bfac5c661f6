"""What a worker's executor hears.

Every event carries the caller's clocks: ``now_ms`` (monotonic) to measure by, and ``wall_ms`` (since 1970) for what
others read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import Epoch, TaskId, Tasks
from airflow_provider.records import SparkWork, StreamProgress, TaskFailure, WrittenAsset


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened at ``now_ms``, which is ``wall_ms`` by the wall clock."""

    now_ms: int
    wall_ms: int


# ---- from the membership


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksGiven(Event):
    """These are this worker's from ``epoch`` on."""

    tasks: Tasks
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksRevoked(Event):
    """These are to stop, started or not, and the membership waits until they are released.

    :param for_good: this worker leaves its group, and does not come back
    """

    tasks: Tasks
    reason: str
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToLearn(Event):
    """These are to be made ready to run here, while others have them. One that moves here is given then."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStopped(Event):
    """These are not to be learned any more, and nobody waits."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdvanced(Event):
    """The worker keeps what it has under this epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Event):
    """The worker is in its group, for the first time or again: what it is to run is still to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(Event):
    """Tasks are not started any more; what runs goes on. Planners start: others wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLetGo(Event):
    """The worker is to leave: nothing that has failed for good keeps its place here any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Event):
    """The worker ends in this process: nothing is started any more."""


# ---- from the topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRead(Event):
    """The jobs and status topics have been read so far."""

    jobs: JobsSnapshot
    status: StatusSnapshot


# ---- from the table itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFree(Event):
    """It is this task's turn. The machine finds that out by itself, after each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time asked for by :class:`~.commands.ArmTimer` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerEvent(Event):
    """Something happened to ``task``, which is learned here."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpDue(LearnerEvent):
    """Its warm-up may begin. The machine finds that out by itself, after each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAdopts(LearnerEvent):
    """It has moved here and it is its turn: the attempt goes on with what has been made ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTaskGone(LearnerEvent):
    """It had moved here, and has gone again without a turn."""


# ---- from what makes a task ready


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpProgressed(LearnerEvent):
    """The warm-up is so far; not each step is reported.

    :param progress: from 0 to 1
    """

    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpReady(LearnerEvent):
    """The warm-up has come to its end: the task may run here as soon as it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpFailed(LearnerEvent):
    """The warm-up ended with an error."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpLost(LearnerEvent):
    """The Spark has ended in which the task was made ready.

    :param spark: which Spark of this process, from 1
    """

    spark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSparkToWarmUp(LearnerEvent):
    """Spark could not be started. No task could run here."""

    error: str


# ---- from what runs a task, or writes of it


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """Something happened to the present attempt at ``task``."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegan(AttemptEvent):
    """The job's own code has been called; waiting for Spark is over.

    :param handle: by which what runs is found again, if it outlives this process; any JSON value
    """

    handle: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBegan(AttemptEvent):
    """The attempt is a stream.

    :param handle: it goes on without this process, and is found by this; None: it ends with this process
    """

    handle: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAdopted(AttemptEvent):
    """What ran of the task before it was given here keeps running, and is watched from here."""

    handle: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCleared(AttemptEvent):
    """Nothing runs any more of what ran of the task before, nothing of it can begin, and it has not come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryUnreachable(AttemptEvent):
    """It can't be seen whether anything runs of what ran of the task before. It is tried again."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProgressed(AttemptEvent):
    """The progress of the attempt, reported from time to time."""

    progress: StreamProgress | SparkWork


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(AttemptEvent):
    """The attempt is done.

    :param result: any JSON value; of a planner the configurations of the job's tasks
    :param stateful: of a planner: whether the job's tasks have something to warm up; None: if they are streams
    :param wrote: the assets that the attempt says it has written
    """

    result: Any
    stateful: bool | None = None
    wrote: tuple[WrittenAsset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEvent):
    """The attempt ended with an error.

    :param retryable: False if another attempt cannot help
    """

    failure: TaskFailure
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopped(AttemptEvent):
    """The attempt ended because it was to stop, or never began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLost(AttemptEvent):
    """The Spark that the attempt ran on has ended, and the attempt with it.

    :param spark: which Spark of this process, from 1: what it ran has ended together
    """

    spark: int
    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAbsent(AttemptEvent):
    """Spark could not be started, so the attempt has not begun. Another one would not begin here, either."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(AttemptEvent):
    """A record with this ``number`` is stored."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWritten(Written):
    """The plan is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRefused(Written):
    """No broker will ever take the plan."""

    refusal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleWritten(Written):
    """The record is stored that says where the attempt is about to begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWritten(Written):
    """The record of the task's end is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRefused(Written):
    """No broker will ever take the record of the task's end."""

    refusal: str
