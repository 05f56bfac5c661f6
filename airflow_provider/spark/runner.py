"""The port between a worker and whatever runs its Spark tasks.

A worker gives orders and receives events. The worker is responsible for slots, retries and records, the runner for
sessions, threads and queries. Planners are run like tasks: their result is the plan.

For every order that was started there is exactly one :class:`LastEvent`, however late. Until then the task is in
:attr:`Runner.running`, and a second copy is refused. A task that runs elsewhere can be warmed up here, until it is
started or the warm-up is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from airflow_provider.spark.lineage import Lineage
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.values.model import Epoch, TaskId, Tasks, labelled


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOrder:
    """The order to run a task or (index -1) a planner.

    :param task: the task
    :param entry_point: ``module:Class`` or ``module:function``
    :param config: the task's configuration; for a planner the job's
    :param epoch: the assignment that gave the task to this worker
    :param attempt: which try this is, from 1
    :param run_key: the name of the run of a bounded job
    :param fingerprint: of what is to run; another one if the job was removed and submitted again
    :param checkpoint_location: see :func:`airflow_provider.spark.job.checkpoint_folder.checkpoint_location`
    :param name: the task's name in the plan, for people; empty: it has none
    :param max_tasks: for a planner: the most tasks that the plan may have, 1 if nobody has set it
    :param session_conf: settings for its session
    :param bounded: whether the task must end by itself; then a query without end is refused
    """

    task: TaskId
    entry_point: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    epoch: Epoch
    attempt: int = 1
    run_key: str | None = None
    fingerprint: str = ""
    checkpoint_location: str = ""
    name: str = ""
    max_tasks: int = 1
    session_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    bounded: bool = False

    @property
    def label(self) -> str:
        """The task for people."""
        return labelled(self.task, self.name)


# ---- of attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent:
    """Something happened to the attempt that this order has started."""

    order: TaskOrder

    @property
    def task(self) -> TaskId:
        return self.order.task


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted(AttemptEvent):
    """The Spark session is open. The task's code is called after :meth:`Runner.proceed`: if it ends this process,
    others have to know that it was running.
    """

    handle: Any = None
    """The handle of the query that the code is about to start, if the query may outlive this process; any JSON
    value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNamed(AttemptEvent):
    """The job's code has said what the task reads and writes."""

    lineage: Lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted(AttemptEvent):
    """The task is a stream: ``run`` has returned its query, which can continue elsewhere from its checkpoint."""

    query_id: str
    """Stays the same over restarts from the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgressed(AttemptEvent):
    """The progress of the task, reported from time to time."""

    progress: QueryProgress | QueryMoves | JobCounts
    """For a query its last batch, or that it moves; for anything else what its Spark jobs have done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvent(AttemptEvent):
    """The attempt has ended, or the runner is done with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(LastEvent):
    """The task has finished, and need not run again in this run of its job."""

    result: Any
    """A JSON value; for a planner the list of the tasks' configurations; for a query that ended by itself its id and
    the number of its last batch."""
    stateful: bool | None = None
    """For a planner: whether the job's tasks have something to warm up; None: this depends on the job's kind."""
    wrote: tuple[tuple[str, str, int | None], ...] = ()
    """The assets that this attempt says it has written: their names, their URIs, and how many rows, if it is known."""
    config_schema: Mapping[str, Any] | None = None
    """For a planner: what the job declares of its config, as a JSON schema; empty: nothing; None: it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed(LastEvent):
    """The task ended with an error, and was not asked to stop."""

    error: str
    """One or a few lines: the error and what caused it."""
    traceback: str = ""
    """The end of the traceback, without the runner's own frames."""
    retryable: bool
    """False if another try can't help: for example, the entry point is not allowed, or the plan is too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConflicted(LastEvent):
    """Another writer uses the checkpoint or the table of the task, and the task has ended. It has not failed."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStopped(LastEvent):
    """The task was told to stop, and has ended; or it never began."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLost(LastEvent):
    """The Spark of the task has ended, and the task with it. The task has not failed, but may be the reason."""

    spark: int
    """The number of this Spark: all tasks with the same number have ended together. A runner counts from 1; those of
    detached tasks have negative numbers."""
    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFaltered(LastEvent):
    """A known fault of Spark, which goes on, has ended the task. It has not failed; its next attempt may do better."""

    error: str
    traceback: str = ""
    lasts: bool = False
    """Whether it may take long until an attempt can begin: Spark has no capacity left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAbsent(LastEvent):
    """Spark could not be started, or this process has reached a limit, so the task has not begun. No other task could
    start here, either.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDetached(LastEvent):
    """The task is a detached stream: it keeps running without this process, and the runner is done with it."""

    handle: Any
    """The handle by which the query is watched. It may turn out that the query was never started."""
    otherwise: LastEvent | None = None
    """How the attempt has ended in that case; None: it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAdopted(AttemptEvent):
    """The task's earlier query is still running, and is watched here."""

    handle: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCleared(AttemptEvent):
    """The task's earlier query has certainly ended, not by itself, and can't be started any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryUnreachable(AttemptEvent):
    """It is unknown whether the task's earlier query is still running. Its server is asked again."""

    why: str


# ---- of warm-ups


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpEvent:
    """Something happened to the warm-up that this order has begun."""

    order: TaskOrder

    @property
    def task(self) -> TaskId:
        return self.order.task


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpProgressed(WarmUpEvent):
    """The progress of a warm-up, reported from time to time."""

    progress: float
    """From 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpReady(WarmUpEvent):
    """The warm-up is done: the task is ready to run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpEnd(WarmUpEvent):
    """Nothing is left of the warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpFailed(WarmUpEnd):
    """The warm-up ended with an error, and was not told to stop."""

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpConflicted(WarmUpEnd):
    """Another writer uses what the warm-up has read. It has not failed."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpLost(WarmUpEnd):
    """The Spark of the warm-up has ended."""

    spark: int
    """The number of this Spark, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSparkToWarmUp(WarmUpEnd):
    """Spark could not be started, or this process has reached a limit."""

    error: str


# ---- of many tasks at once


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersSilent:
    """Whether tasks use a server that does not answer: nobody knows whether they still run."""

    silent: bool
    detached: bool
    """Which tasks: the detached ones, or the attached ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEnded:
    """Spark has ended under these attached tasks. The last event of each is still to come: its code may take long to
    notice.
    """

    spark: int
    tasks: Tasks


RunnerEvent: TypeAlias = AttemptEvent | WarmUpEvent | ServersSilent | SparkEnded
OnEvent: TypeAlias = Callable[[RunnerEvent], None]
"""Called in the thread of the event loop, with the events of each task in order. It must not block or raise."""


class StillRunningError(Exception):
    """A task was to be started although its last run in this worker has not ended: there would be two copies."""


class RunnerClosedError(Exception):
    """A closed runner was asked to start a task."""


class Runner(Protocol):
    """Runs tasks in this process. For a query that is detached, the runner's last event is :class:`QueryDetached`, with
    its handle. All methods belong to one event loop and never block it.
    """

    @property
    def running(self) -> Tasks:
        """The tasks whose last event is still to come."""

    @property
    def condition(self) -> str:
        """What all its tasks wait for, in a few words; usually empty."""

    @property
    def opening(self) -> bool:
        """Whether Spark is being started here, even if no task waits for it any more. If the process ended now, this
        work would be lost.
        """

    @property
    def spark_ui(self) -> str:
        """The address of the Spark UI; empty if it is off."""

    def warm(self, order: TaskOrder) -> None:
        """Warm a task up, until it is started or :meth:`stop_warming` is called. Progress and outcome come as events.
        The task is not in :attr:`running`.

        :raises RunnerClosedError: after :meth:`close`
        """

    def stop_warming(self, task: TaskId) -> None:
        """Drop the warm-up of this task, if there is one. No more events of it follow."""

    async def start(self, order: TaskOrder) -> None:
        """Start a task and return immediately. Everything else comes as events, including faults of the order. If the
        task was warmed up, it continues with the warm-up.

        :raises StillRunningError: if the task is still running here
        :raises RunnerClosedError: after :meth:`close`
        """

    def proceed(self, task: TaskId) -> None:
        """The start that :class:`TaskStarted` reported is stored: the task's code may be called now."""

    async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:
        """Tell tasks to stop, and wait until they have ended. Tasks that do not run here are ignored.

        :param reason: repeated in :class:`TaskStopped`
        :param timeout_s: how long to wait, in seconds
        :return: those that are still running then; their last events follow later
        """

    async def close(self, *, timeout_s: float = 30.0) -> Tasks:
        """Stop everything, and free all resources. Further calls do nothing.

        :return: the tasks that have not ended in time
        """
