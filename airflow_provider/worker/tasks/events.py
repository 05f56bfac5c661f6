"""The events of a worker's executor: what its runner tells of attempts and warm-ups
(:mod:`airflow_provider.spark.runner`), and what follows here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider.spark.runner import RunnerEvent
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """Something that no runner tells."""


# ---- from the membership


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksGiven(WorkerEvent):
    """These tasks belong to this worker from ``epoch`` on."""

    tasks: Tasks
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksRevoked(WorkerEvent):
    """These tasks must stop, whether they have started or not, and the membership waits until they are released.

    :param for_good: whether this worker leaves its group and does not come back
    """

    tasks: Tasks
    reason: str
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksToLearn(WorkerEvent):
    """These tasks are to be warmed up here while other workers have them. One that moves here later comes as
    :class:`TasksGiven`.
    """

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStopped(WorkerEvent):
    """These tasks are no longer to be learned. Nobody waits for this."""

    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochAdvanced(WorkerEvent):
    """The worker keeps its tasks in this new epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(WorkerEvent):
    """The worker is in its group, for the first time or again. Its tasks are still to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained(WorkerEvent):
    """No more tasks are started; running tasks continue. Planners still start, because other tasks wait for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLetGo(WorkerEvent):
    """The worker is to leave: release the tasks that have failed for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavesForGood(WorkerEvent):
    """The worker leaves its group and never comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed(WorkerEvent):
    """The worker ends in this process: start nothing more."""


# ---- from the topics


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsRead(WorkerEvent):
    """New records in the jobs and status topics have been read."""

    jobs: JobsSnapshot
    status: StatusSnapshot


# ---- from the table itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFree(WorkerEvent):
    """It is this task's turn to start. The machine creates this event itself, after each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWanted(WorkerEvent):
    """This task is to stop for a while, because another one is tried with nothing beside it
    (``runs/spark_deaths/suspects.py``). The machine creates this event itself, after each event.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWordsRead(WorkerEvent):
    """Everything has been read that the last process of this task may have written about it, or this took too long. The
    machine creates this event itself.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(WorkerEvent):
    """The time asked for by :class:`~.commands.ArmTimer` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerEvent(WorkerEvent):
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


# ---- from the writing of records


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WorkerEvent):
    """A record of ``task`` with this ``number`` is stored."""

    task: TaskId
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


Event: TypeAlias = WorkerEvent | RunnerEvent
