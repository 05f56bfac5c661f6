"""The port between a worker and whatever runs its Spark tasks.

A worker hands out orders and hears events. Slots, retries and records are the worker's; sessions, threads and queries
are the runner's. Planners go the same way as tasks: their result is the plan.

For every order that was started there is exactly one last event (one of :data:`LAST_EVENTS`), however late. Until then
the task is in :attr:`Runner.running`, and a second copy is refused. A task that runs elsewhere can be made ready to run
here; nothing but the order to start it, or to let go of it, has to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from airflow_provider.driver.job_counts import JobCounts
from airflow_provider.driver.query_progress import QueryProgress
from airflow_provider.protocol.model import Epoch, TaskId, Tasks, labelled
from airflow_provider.spark.asset_writes import AssetWrite
from airflow_provider.spark.job import Config
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """What a runner gets to know of a task, or (index -1) of a planner.

    :param task: which one
    :param entry_point: ``module:Class`` or ``module:function``
    :param config: the task's configuration; for a planner the job's
    :param epoch: the assignment that gave the task to this worker
    :param attempt: which try this is, from 1
    :param run_key: names the run of a bounded job
    :param checkpoint_location: see :func:`airflow_provider.spark.checkpoints.checkpoint_location`
    :param name: what the plan calls the task, if it does; for people
    :param max_tasks: for a planner: the plan may have at most so many tasks
    :param session_conf: settings for its session
    :param bounded: whether the task is to end by itself: a query that does not is refused then
    """

    task: TaskId
    entry_point: str
    config: Config = field(default_factory=dict, repr=False)
    epoch: Epoch
    attempt: int = 1
    run_key: str | None = None
    checkpoint_location: str = ""
    name: str = ""
    max_tasks: int = 1
    session_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    bounded: bool = False

    @property
    def label(self) -> str:
        """The task for people."""
        return labelled(self.task, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """The job's own code has been called; waiting for the Spark session is over."""

    order: TaskOrder
    lineage: Lineage = NOTHING_NAMED
    """What the task reads and writes, as its job declares it."""
    handle: Any = None
    """By which is found what the code is about to begin, if that may outlive this process; any JSON value. The code is
    then called when somebody has said :meth:`Runner.proceed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted:
    """The task streams: ``run`` has returned its query, by whose checkpoint it can go on elsewhere."""

    order: TaskOrder
    query_id: str
    """Stays the same over restarts from the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDetached:
    """The task streams, and goes on without this process: the runner has no part in it any more."""

    order: TaskOrder
    handle: Any
    """By which it is watched, or it is seen that it has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAdopted:
    """What ran of the task before runs on, and is watched here."""

    order: TaskOrder
    handle: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCleared:
    """Of what ran of the task before nothing runs any more, and nothing of it can begin."""

    order: TaskOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryUnreachable:
    """It can't be seen whether anything runs of what ran of the task before."""

    order: TaskOrder
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgressed:
    """The progress of the task, reported from time to time."""

    order: TaskOrder
    progress: QueryProgress | JobCounts
    """For a query its last batch; for anything else what its Spark jobs have done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished:
    """The task is done, and need not run again in this run."""

    order: TaskOrder
    result: Any
    """JSON-able; for a planner the list of the tasks' configurations; for a query that ended by itself its id and the
    number of its last batch."""
    stateful: bool | None = None
    """Of a planner: whether the job's tasks have something to warm up; None: its code leaves that to its kind."""
    wrote: tuple[AssetWrite, ...] = ()
    """The assets that this attempt says it has written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """The task ended with an error, and was not asked to stop."""

    order: TaskOrder
    error: str
    """One or a few lines: the error and what caused it."""
    traceback: str
    """The end of the traceback, without the runner's own frames."""
    retryable: bool
    """False if another try cannot help: an entry point that is not allowed, a plan that is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStopped:
    """The task was told to stop, and has ended."""

    order: TaskOrder
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLost:
    """The Spark that the task ran on has ended, and the task with it. It has not failed; it may be why Spark ended."""

    order: TaskOrder
    spark: int
    """Which Spark of this process that was, from 1: what it ran has ended together."""
    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAbsent:
    """Spark could not be started, so the task has not begun. Another one would not begin here, either."""

    order: TaskOrder
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpProgressed:
    """A task is so far from being ready to run here. Reported from time to time."""

    order: TaskOrder
    progress: float
    """From 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpReady:
    """A task is ready to run here."""

    order: TaskOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpFailed:
    """Making a task ready ended with an error, and was not asked to stop."""

    order: TaskOrder
    error: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpLost:
    """The Spark that a task was made ready in has ended."""

    order: TaskOrder
    spark: int
    """Which Spark of this process that was, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSparkToWarmUp:
    """Spark could not be started."""

    order: TaskOrder
    error: str


WarmUpEvent: TypeAlias = WarmUpProgressed | WarmUpReady | WarmUpFailed | WarmUpLost | NoSparkToWarmUp
WARM_UP_ENDS: Final = (WarmUpFailed, WarmUpLost, NoSparkToWarmUp)
"""After one of these nothing is there any more of what was made ready."""
LastEvent: TypeAlias = TaskFinished | TaskFailed | TaskStopped | SparkLost | SparkAbsent | QueryDetached
LAST_EVENTS: Final = (TaskFinished, TaskFailed, TaskStopped, SparkLost, SparkAbsent, QueryDetached)
LookedEvent: TypeAlias = QueryAdopted | QueryCleared | QueryUnreachable
RunnerEvent: TypeAlias = TaskStarted | QueryStarted | TaskProgressed | LastEvent | LookedEvent | WarmUpEvent

OnEvent: TypeAlias = Callable[[RunnerEvent], None]
"""Called in the thread of the event loop, the events of one task in their order. It must not block or raise."""


class StillRunningError(Exception):
    """A task was to be started although its last run in this worker has not ended: there would be two copies."""


class RunnerClosedError(Exception):
    """A closed runner was asked to start a task."""


class Runner(Protocol):
    """Runs tasks, which end with this process: of one that goes on without it the runner's last word is by which handle
    it is found. All methods belong to one event loop and never block it.
    """

    @property
    def running(self) -> Tasks:
        """The tasks whose last event is still to come."""

    @property
    def condition(self) -> str:
        """What all its tasks wait for, in a few words; mostly nothing."""

    @property
    def opening(self) -> bool:
        """Whether Spark is just being started here, even if nothing waits for it any more: it would be lost with the
        process, and another process would start one anew.
        """

    @property
    def spark_ui(self) -> str:
        """The address of the Spark UI; empty if it is off."""

    def warm(self, order: TaskOrder) -> None:
        """Make a task ready to run here, and go on with that until it is started, or :meth:`stop_warming` is called;
        what becomes of it is heard by events. It is not one of :attr:`running`.

        :raises RunnerClosedError: after :meth:`close`
        """

    def stop_warming(self, task: TaskId) -> None:
        """Let go of what was made ready for this task, if anything was. Nothing more is heard of it."""

    async def start(self, order: TaskOrder) -> None:
        """Start a task and return immediately; the rest is heard by events, also what is wrong with the order. If it
        was made ready, it goes on with that.

        :raises StillRunningError: if the task is still running here
        :raises RunnerClosedError: after :meth:`close`
        """

    def proceed(self, task: TaskId) -> None:
        """The handle is stored that :class:`TaskStarted` has named: the task's code may be called."""

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:
        """Tell tasks to stop and wait until they have ended; tasks that do not run here are ignored.

        :param reason: repeated in :class:`TaskStopped`
        :param timeout_s: how long to wait, in seconds
        :return: those that have not ended by then: they are still running, their last event will come when it does
        """

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        """Stop everything, and free what the runner holds. Further calls do nothing.

        :return: the tasks that have not ended in time
        """
