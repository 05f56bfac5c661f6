"""What job authors use.

A job is a class that a worker can import by ``module:Class``::

    class Ingest(SparkJob):
        def plan(self, job: JobContext) -> list[dict]:
            return [{"table": name} for name in job.config["tables"]]

        def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery | Any:
            rows = spark.read.parquet(task.config["table"])
            task.fence()
            rows.write.mode("overwrite").parquet(...)
            return {"rows": rows.count()}

or, in the common case, a decorated function, ``module:function``::

    @spark_job(plan=lambda job: [{"month": month} for month in range(1, 13)])
    def clean(spark: SparkSession, task: TaskContext) -> dict:
        ...

What you can rely on:

- ``run`` is called in a thread of its own, with a :class:`~pyspark.sql.SparkSession` of its own. Temporary views, SQL
  settings and streaming queries belong to the task. The Spark application and its executors are shared with the other
  tasks of the worker, so ``spark.stop()`` does nothing. When the task ends, everything that it has left running in its
  session is stopped.
- A bounded task returns a JSON value (it is shown in the status topic, so keep it small). An unbounded task returns its
  started ``StreamingQuery``, and lasts as long as this runs; on a Spark Connect server even without the worker's
  process (see ``docs/detached.md``). If a query ends by itself (``availableNow``), its task is finished.
- At least once: if a task was stopped or its worker was lost, it runs again from its beginning, perhaps elsewhere, with
  the same ``config`` and the same ``checkpoint_location``. If it is told to stop before ``run`` returns, it counts as
  stopped, whatever it returns. So write in a way that a second run replaces what the first one has written.
- When a task is told to stop, its Spark jobs are cancelled and its queries are stopped. Python code that runs for long
  has to check ``task.stopping``.
- If a job has ``warm_up(spark, task)``, this may be called before ``run``, on the same object, in the same session and
  thread, while the task still runs on another worker. It must write nothing, and may be ended at any time. ``run`` must
  also work without it.
- Two workers can both believe that they own a task only if one of them was paused or cut off for longer than its
  session. Call ``task.fence()`` right before each external side effect, or use ``task.foreach_batch``.

This module needs only the standard library, so a DAG file or a unit test can import a job without PySpark.
"""

from __future__ import annotations

import functools
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsIndex, TypeAlias, overload

from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.asset_writes import AssetWrites
from airflow_provider.spark.job.rehearsing import Rehearsal
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage
from airflow_provider.spark.local.isolation.forks import only_in_this_process
from airflow_provider.spark.raised import Naming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Config: TypeAlias = Mapping[str, Any]
"""A JSON object: the configuration of a job or of one of its tasks."""


class FencedError(Exception):
    """The attempt may not write any more: its worker's lease is over, or the task was revoked.

    Don't catch it: the task then ends, and the worker that has it now does the work.
    """


class TaskGuard(Protocol):
    """What a :class:`TaskContext` uses to notice a stop or the end of the lease. A test of a job can pass its own."""

    @property
    def stopping(self) -> bool:
        """Whether the task has been told to stop."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the task is told to stop, at most ``timeout_s`` seconds; True if it was told."""

    def check(self) -> None:
        """:raises FencedError: if the lease is over, or the task was told to stop; a batch may be completed first"""

    def check_lease(self) -> None:
        """:raises FencedError: if the lease is over"""


class _Unguarded:
    """The guard of a context without a runner: nothing ever stops the task."""

    stopping = False

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002
        return False

    def check(self) -> None: ...

    def check_lease(self) -> None: ...


Share: TypeAlias = "Callable[[str, Callable[[], DataFrame], TaskGuard], DataFrame]"
"""What :meth:`TaskContext.cached` calls; by default each task makes its own data."""


def _make_for_oneself(_name: str, make: Callable[[], DataFrame], _guard: TaskGuard) -> DataFrame:
    return make()


Rehearse: TypeAlias = "Callable[[DataStreamWriter, str, TaskGuard], Iterator[float]]"
"""What :meth:`TaskContext.rehearse` calls; outside of a warm-up it does nothing."""


def rehearse_nothing(_stream: DataStreamWriter, _location: str, _guard: TaskGuard) -> Iterator[float]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a planner knows about its job.

    :param name: the job's name
    :param config: the job's configuration
    :param max_tasks: the most tasks that the plan may have, and the number of parts for work that can be divided into
        any number. 1 if nobody has set it; the plan may then have as many tasks as it needs
    :param run_key: the name of the run of a bounded job (by default an Airflow run id); None for a job without runs
    :param spark_provider: makes :attr:`spark`
    """

    name: str
    config: Config = field(repr=False)
    max_tasks: int
    run_key: str | None = None
    spark_provider: Callable[[], SparkSession] | None = field(default=None, repr=False)

    @property
    def spark(self) -> SparkSession:
        """A session for plans that have to look at data (list partitions, read a catalog). It is made with the first
        use: plans that do not need Spark do not wait for its start.

        :raises RuntimeError: if the runner has no Spark
        """
        if self.spark_provider is None:
            raise RuntimeError(f"the planner of job {self.name!r} asked for Spark, but this runner has none")
        return self.spark_provider()


class _FencedWrite:
    """A function for ``foreachBatch``, behind a fence in this process."""

    def __init__(self, write: Callable[[DataFrame, int], object], guard: TaskGuard) -> None:
        functools.update_wrapper(self, write)
        self._write = write
        self._guard = guard

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self._guard.check()
        with Naming(_write_failed, Exception), only_in_this_process():  # PySpark can't send anything else to the JVM
            self._write(batch, batch_id)
        self._guard.check_lease()

    def __reduce__(self) -> Any:
        """Pickled, it is only ``write``: another process does not know the lease."""
        return _bare, (self._write,)


def _write_failed(said: str) -> RuntimeError:
    return RuntimeError(f"the function of foreachBatch failed with {said}")


def _bare(write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], object]:
    return write


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task knows about itself.

    :param job: the job's name
    :param index: which of the job's tasks this is, from 0
    :param config: the task's configuration from the plan
    :param epoch: the epoch of the assignment under which the task was started
    :param attempt: which start this is, from 1
    :param run_key: the name of the run of a bounded job; None for a job without runs
    :param fingerprint: stands for what is to be done: another one if the job is changed, or is removed and submitted
        again. Together with ``run_key``, it is the same for all attempts at the same work, and for nothing else
    :param checkpoint_location: the folder for this task's streaming checkpoint. It is the same on each worker and in
        each run, so a query continues where it stopped (see :mod:`airflow_provider.spark.job.checkpoint_folder`)
    """

    job: str
    index: int
    config: Config = field(repr=False)
    epoch: int
    attempt: int = 1
    run_key: str | None = None
    fingerprint: str = ""
    checkpoint_location: str
    guard: TaskGuard = field(default=_Unguarded(), repr=False)
    share: Share = field(default=_make_for_oneself, repr=False)
    rehearsing: Rehearse = field(default=rehearse_nothing, repr=False)
    applications: AllowedApplications = field(default=NO_APPLICATIONS, repr=False)
    writes: AssetWrites = field(default_factory=AssetWrites, repr=False, compare=False)

    @property
    def stopping(self) -> bool:
        """Whether the task has been told to stop: long Python work should end soon."""
        return self.guard.stopping

    def wait(self, timeout_s: float) -> bool:
        """Sleep ``timeout_s`` seconds, or until the task is told to stop; True if it was told."""
        return self.guard.wait(timeout_s)

    @property
    def moves(self) -> bool:
        """Whether the task was told to stop because it is to go on elsewhere, or later: what works for it on a cluster
        may go on meanwhile. If it is stopping otherwise, that has to end.
        """
        return bool(getattr(self.guard, "moves", False))

    @property
    def lease_left_s(self) -> float:
        """For how many seconds nobody else can own the task. What works for it in another process, which no fence in
        this one holds back, must have ended by then.
        """
        left_s = getattr(self.guard, "lease_left_s", None)  # not all guards of tests have it
        return math.inf if left_s is None else float(left_s())

    def cached(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Reference data that the job's tasks on this worker share: read and cached once, with ``DataFrame.persist``.

        It is kept as long as a task that uses it runs or is warmed up here, and ten minutes longer.

        :param name: identifies the data. It must contain everything that ``make`` depends on, such as a date or a path
        :param make: reads the data, for the first task that asks; the others wait
        """
        return self.share(f"{self.job}/{name}", make, self.guard)

    def rehearse(self, stream: DataStreamWriter) -> Iterator[float]:
        """In a warm-up: run a query like the task's on a copy of its checkpoint, again and again until it starts no
        faster. Yields the progress, from 0 to 1. It only runs while it is iterated over; if nobody does, a warning
        names the line. Its failures are logged. In ``run`` it does nothing, because the task would have to wait for it.

        :param stream: reads from the sources of the task's query, into a sink that keeps nothing, because it gets real
            batches. ``run`` may start it later with another sink; then it has the task's own checkpoint
        """
        steps = self.rehearsing(stream, self.checkpoint_location, self.guard)
        return Rehearsal(steps, self.guard, traceback.extract_stack(limit=2)[0])

    def fence(self) -> None:
        """Check that the task may still write. Call this right before each external side effect.

        :raises FencedError: if this attempt may not write any more
        """
        self.guard.check()

    def foreach_batch(self, write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
        """``write`` behind a fence, for ``writeStream.foreachBatch(...)``.

        Nothing is written if the attempt may not write. If the lease ends while it writes, the batch is not committed
        to the checkpoint, and the new owner writes it again: use the batch id to replace what is there.

        On Spark Connect, ``write`` runs beside the server, which does not know the lease. There the server is the
        fence: before the task's next attempt begins, the server ends the session of this one, with its query.
        """
        return _FencedWrite(write, self.guard)

    def wrote(self, asset: str, rows: SupportsIndex | None = None, *, uri: str | None = None) -> None:
        """Report that the task has written an Airflow asset. Reports of earlier attempts no longer count.

        When the job has finished, an operator that waits for it stores an asset event with the rows of all tasks. The
        rows of several calls for one asset are added up.

        :param asset: its name, or its URI if that is its name, as in ``Asset("s3://lake/orders")``
        :param rows: how many rows were written; None: unknown, and then the sum is unknown, too
        :param uri: its URI, if it also has a name
        :raises ValueError: for an invalid name or number, and for more than a hundred assets
        """
        self.writes.add(asset, asset if uri is None else uri, rows)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a TaskContext stays in the worker's process: use a local variable for what a UDF needs of it,"
            " such as config = dict(task.config)"
        )


WarmUp: TypeAlias = "Callable[[SparkSession, TaskContext], Iterator[float] | object]"
"""Makes a task ready to run. A generator yields its progress, from 0 to 1; the result of a function is ignored."""


class SparkJob:
    """A job: how to divide the work, and how to do one part of it. Each plan and each task has an object of its own."""

    warm_up: WarmUp | None
    """``warm_up(self, spark, task)``: make ``task`` ready to run here, while another worker runs it. Tasks of a job
    without it move without a warm-up, except streams: for these the newest checkpoint files are read, and Spark is made
    ready to write streams. None: not even for streams.
    """

    config_schema: type | Mapping[str, Any] | None = None
    """What the job's configuration must look like: a JSON schema, a dataclass or a pydantic model. Any other
    configuration is refused before the job is planned, and already when it is submitted if the job's module is there.
    None: anything is accepted.
    """

    needs_session: bool = True
    """Whether its tasks use the Spark of their worker. If not, :meth:`run` gets None for it, and it is not started for
    them: their work is done by another process, or by none of Spark at all.
    """

    slots: int = 1
    """How many slots of its worker each task takes while it runs, unless its own configuration has ``slots``: for tasks
    that need more memory or cores than others. Tasks of jobs that were submitted later don't overtake it while it
    waits. If the worker has fewer slots, the task gets all that streams leave.
    """

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        """The configurations of the tasks: JSON objects, at most ``max_tasks`` if the job was submitted with that;
        ``[]``: there is nothing to do. By default, one task with the job's configuration.

        The same task index should mean the same work from one plan to the next. If it does not, and the tasks are
        streams, give each configuration a ``checkpoint_key`` (see :mod:`airflow_provider.spark.job.checkpoint_folder`).
        """
        return [dict(job.config)]

    def lineage(self, task: TaskContext) -> Lineage:  # noqa: ARG002
        """What the task reads and writes, for OpenLineage; by default nothing. Called right before :meth:`run`. If it
        fails, this is logged, and the task runs nevertheless.
        """
        return NOTHING_NAMED

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        """Do the work of one task.

        :return: a JSON value, or the started ``StreamingQuery``
        """
        raise NotImplementedError(f"{type(self).__qualname__} must define run(self, spark, task)")


def is_stateful(job: SparkJob) -> bool | None:
    """Whether the job's tasks have something to warm up; None: only if they are streams, as the job does not say."""
    if not hasattr(job, "warm_up"):
        return None if job.needs_session else False
    return job.warm_up is not None


RunFunction: TypeAlias = "Callable[[SparkSession, TaskContext], Any]"
LineageFunction: TypeAlias = "Callable[[TaskContext], Lineage]"
PlanFunction: TypeAlias = "Callable[[JobContext], list[dict[str, Any]]]"


class UnsaidType:
    """The type of :data:`UNSAID`."""

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final = UnsaidType()
"""The default of ``warm_up``, for which None has a meaning of its own."""


class FunctionJob(SparkJob):
    """A job made from a function by :func:`spark_job`. Calling it calls the function, for tests."""

    __name__: str

    def __init__(
        self,
        function: RunFunction,
        plan: PlanFunction | Sequence[Config] | None,
        warm_up: WarmUp | UnsaidType | None = UNSAID,
        config_schema: type | Mapping[str, Any] | None = None,
        lineage: LineageFunction | None = None,
        slots: int = 1,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._lineage = lineage
        self._plan = plan
        self.config_schema = config_schema
        self.slots = slots
        if not isinstance(warm_up, UnsaidType):
            self.warm_up = warm_up

    def __call__(self, spark: SparkSession, task: TaskContext) -> Any:
        return self._function(spark, task)

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        if self._plan is None:
            return super().plan(job)
        if callable(self._plan):
            return self._plan(job)
        return [dict(config) for config in self._plan]

    def lineage(self, task: TaskContext) -> Lineage:
        return NOTHING_NAMED if self._lineage is None else self._lineage(task)

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        return self._function(spark, task)


@overload
def spark_job(function: RunFunction) -> FunctionJob: ...


@overload
def spark_job(
    *,
    plan: PlanFunction | Sequence[Config] | None = None,
    warm_up: WarmUp | UnsaidType | None = UNSAID,
    config_schema: type | Mapping[str, Any] | None = None,
    lineage: LineageFunction | None = None,
    slots: int = 1,
) -> Callable[[RunFunction], FunctionJob]: ...


def spark_job(
    function: RunFunction | None = None,
    *,
    plan: PlanFunction | Sequence[Config] | None = None,
    warm_up: WarmUp | UnsaidType | None = UNSAID,
    config_schema: type | Mapping[str, Any] | None = None,
    lineage: LineageFunction | None = None,
    slots: int = 1,
) -> FunctionJob | Callable[[RunFunction], FunctionJob]:
    """Decorator that makes a job from a function ``run(spark, task)``; with or without arguments.

    :param plan: a function of the :class:`JobContext`, or the list of the tasks' configurations. By default, the job
        has one task with the job's configuration
    :param warm_up: a function of the session and the :class:`TaskContext`, as :attr:`SparkJob.warm_up`
    :param config_schema: as :attr:`SparkJob.config_schema`
    :param lineage: a function of the :class:`TaskContext`, as :meth:`SparkJob.lineage`
    :param slots: as :attr:`SparkJob.slots`
    """
    if function is None:
        return lambda function: FunctionJob(function, plan, warm_up, config_schema, lineage, slots)
    return FunctionJob(function, plan, warm_up, config_schema, lineage, slots)
