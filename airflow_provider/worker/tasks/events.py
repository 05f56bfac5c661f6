"""The events of a worker's executor.

Every event carries the caller's clocks: ``now_ms`` (monotonic) for measuring, and ``wall_ms`` (since 1970) for records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.state.records import SparkWork, StreamProgress, TaskFailure, WrittenAsset
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened at ``now_ms``, which is ``wall_ms`` by the wall clock."""

    now_ms: int
    wall_ms: int


# ---- from the membership


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksGiven(Event):
    """These tasks belong to this worker from ``epoch`` on."""

    tasks: Tasks
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksRevoked(Event):
    """These tasks must stop, whether they have started or not, and the membership waits until they are released.

    :param for_good: whether this worker leaves its group and does not come back
    """

    tasks: Tasks
    reason: str
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToLearn(Event):
    """These tasks are to be warmed up here while other workers have them. One that moves here later comes as
    :class:`TasksGiven`.
    """

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStopped(Event):
    """These tasks are no longer to be learned. Nobody waits for this."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdvanced(Event):
    """The worker keeps its tasks in this new epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Event):
    """The worker is in its group, for the first time or again. Its tasks are still to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(Event):
    """No more tasks are started; running tasks continue. Planners still start, because other tasks wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLetGo(Event):
    """The worker is to leave: release the tasks that have failed for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavesForGood(Event):
    """The worker leaves its group and never comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(Event):
    """The worker ends in this process: start nothing more."""


# ---- from the topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRead(Event):
    """New records in the jobs and status topics have been read."""

    jobs: JobsSnapshot
    status: StatusSnapshot


# ---- from the table itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFree(Event):
    """It is this task's turn to start. The machine creates this event itself, after each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWanted(Event):
    """This task is to stop for a while, because another one is tried with nothing beside it
    (``runs/spark_deaths/suspects.py``). The machine creates this event itself, after each event.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWordsRead(Event):
    """Everything has been read that the last process of this task may have written about it, or this took too long. The
    machine creates this event itself.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time asked for by :class:`~.commands.ArmTimer` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerEvent(Event):
    """Something happened to ``task``, which this worker learns."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpDue(LearnerEvent):
    """Its warm-up may begin. The machine creates this event itself, after each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTaskStarted(LearnerEvent):
    """The task has moved here and starts: its attempt continues with the warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTaskGone(LearnerEvent):
    """The task had moved here, and was released again without having started."""


# ---- from a warm-up


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpProgressed(LearnerEvent):
    """The warm-up has progressed; not every step is reported.

    :param progress: from 0 to 1
    """

    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpReady(LearnerEvent):
    """The warm-up is done: the task can start here as soon as it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpFailed(LearnerEvent):
    """The warm-up ended with an error."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpConflicted(LearnerEvent):
    """The warm-up has met another writer."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpLost(LearnerEvent):
    """The Spark of the warm-up has ended.

    :param spark: the number of this Spark in this process, from 1
    """

    spark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSparkToWarmUp(LearnerEvent):
    """Spark could not be started. No task could run here."""

    error: str


# ---- from an attempt, or from the writing of its records


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(Event):
    """Something happened to the present attempt of ``task``."""

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegan(AttemptEvent):
    """The job's own code can be called: Spark is there. It waits for :class:`~.commands.LetBegin`.

    :param handle: the handle of the query that may outlive this process; any JSON value
    """

    handle: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBegan(AttemptEvent):
    """The attempt is a stream.

    :param handle: the handle of the detached query; None: it ends with this process
    :param otherwise: the last event of the attempt, if it turns out that the query was never started; None: unknown
    """

    handle: Any = None
    otherwise: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAdopted(AttemptEvent):
    """The task's earlier query is still running, and is watched from here."""

    handle: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCleared(AttemptEvent):
    """The task's earlier query was certainly ended, can't be started any more, and has not ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryUnreachable(AttemptEvent):
    """It is unknown whether the task's earlier query is still running. Its server is asked again."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersSilent(Event):
    """Whether tasks use a server that does not answer: it is unknown whether they still run.

    :param detached: which tasks: the detached ones, or the attached ones
    """

    silent: bool
    detached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEnded(Event):
    """Spark has ended under attached tasks, each of which will say so itself, perhaps much later.

    :param spark: which one, as in :class:`SparkLost`
    """

    spark: int
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProgressed(AttemptEvent):
    """The progress of the attempt, reported from time to time."""

    progress: StreamProgress | SparkWork


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMoved(AttemptEvent):
    """The attempt's stream is between two batches, or has had nothing to read. There is nothing new to tell of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(AttemptEvent):
    """The attempt has finished.

    :param result: any JSON value; for a planner the configurations of the job's tasks
    :param stateful: for a planner: whether the job's tasks have something to warm up; None: yes, if they are streams
    :param wrote: the assets that the attempt says it has written
    :param config_schema: for a planner: what the job declares of its config; None: it is not known
    """

    result: Any
    stateful: bool | None = None
    wrote: tuple[WrittenAsset, ...] = ()
    config_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(AttemptEvent):
    """The attempt ended with an error.

    :param retryable: False if another attempt cannot help
    """

    failure: TaskFailure
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptConflicted(AttemptEvent):
    """Another writer uses the task's checkpoint or table, and the attempt has ended."""

    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopped(AttemptEvent):
    """The attempt ended because it was told to stop, or it never began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLost(AttemptEvent):
    """The Spark that the attempt ran on has ended, and the attempt with it.

    :param spark: the number of this Spark in this process: all its tasks have ended together. Those of detached tasks
        have negative numbers
    """

    spark: int
    failure: TaskFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFaltered(AttemptEvent):
    """A known fault of Spark, which the next attempt does not meet, has ended the attempt.

    :param lasts: it may take long until an attempt can begin: Spark has no capacity left
    """

    failure: TaskFailure
    lasts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAbsent(AttemptEvent):
    """Spark could not be started, so the attempt has not begun. No other task could start here, either."""

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
class StartWritten(Written):
    """The record that the attempt runs is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWritten(Written):
    """The record of the task's end is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRefused(Written):
    """No broker will ever take the record of the task's end."""

    refusal: str
