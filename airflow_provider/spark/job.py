"""What a job author writes against.

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

What to count on:

- ``run`` is called in a thread of its own, with a :class:`~pyspark.sql.SparkSession` of its own: temporary views, SQL
  settings and streaming queries are the task's, the Spark application and its executors are shared with the other tasks
  of the worker; ``spark.stop()`` does nothing. When ``run`` ends, whatever it left running in its session is stopped.
- A bounded task returns something JSON-able (it is shown in the status topic, so keep it small). An unbounded task
  returns its started ``StreamingQuery``; the worker waits for its end. A query that ends by itself (``availableNow``)
  finishes the task.
- At least once: a task that was stopped, or whose worker was lost, runs again from its beginning, perhaps elsewhere,
  with the same ``config`` and the same ``checkpoint_location``. A task that is told to stop before ``run`` returns
  counts as stopped whatever it returns. Write so that a second run replaces what the first one wrote.
- Being told to stop: Spark jobs of the task are cancelled and its queries are stopped. Python code that runs long by
  itself looks at ``task.stopping``.
- ``warm_up(spark, task)``, where a job has one, may be called before ``run``, on the same object, in the same session
  and thread, while the task runs on another worker still. It writes nothing, and may be ended at any time. ``run`` does
  without it where the task was not warmed up.
- Two workers that both think they own a task: only if one of them was paused or cut off for longer than its session.
  Call ``task.fence()`` right before each external side effect, or use ``task.foreach_batch``.

The module needs the standard library only, so a DAG file or a unit test can import a job without PySpark.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsIndex, TypeAlias, overload

from airflow_provider.spark.asset_writes import AssetWrites
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage
from airflow_provider.spark.rehearsing import Rehearsal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Config: TypeAlias = Mapping[str, Any]
"""A JSON object: the configuration of a job or of one of its tasks."""


class FencedError(Exception):
    """The attempt may not write any more: its worker's lease is over, or the task was revoked.

    Let it pass: the task then ends, and the worker that has it now does the work.
    """


class TaskGuard(Protocol):
    """What a runner puts behind a :class:`TaskContext`; a test of a job can put there what it likes."""

    @property
    def stopping(self) -> bool:
        """Whether the task has been told to stop."""

    def wait(self, timeout_s: float) -> bool:
        """Sleep until the task is told to stop, at most ``timeout_s`` seconds; True if it was told."""

    def check(self) -> None:
        """:raises FencedError: if the lease is over, or the task was told to stop; a batch of a query may end first"""

    def check_lease(self) -> None:
        """:raises FencedError: if the lease is over"""


class _Unguarded:
    """The guard of a context that no runner made: nothing ever stops the task."""

    stopping = False

    def wait(self, timeout_s: float) -> bool:  # noqa: ARG002
        return False

    def check(self) -> None: ...

    def check_lease(self) -> None: ...


Share: TypeAlias = "Callable[[str, Callable[[], DataFrame], TaskGuard], DataFrame]"
"""What a runner puts behind :meth:`TaskContext.cached`; by default everybody makes the data for himself."""


def _make_for_oneself(_name: str, make: Callable[[], DataFrame], _guard: TaskGuard) -> DataFrame:
    return make()


Rehearse: TypeAlias = "Callable[[DataStreamWriter, str, TaskGuard], Iterator[float]]"
"""What a runner puts behind :meth:`TaskContext.rehearse` in a warm-up; else nothing is done."""


def rehearse_nothing(_stream: DataStreamWriter, _location: str, _guard: TaskGuard) -> Iterator[float]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """What a planner knows.

    :param name: the job's name
    :param config: the job's configuration
    :param max_tasks: the plan may have at most so many tasks
    :param run_key: names the run of a bounded job (an Airflow run id by default); None for a job without runs
    :param spark_provider: where ``spark`` comes from
    """

    name: str
    config: Config = field(repr=False)
    max_tasks: int
    run_key: str | None = None
    spark_provider: Callable[[], SparkSession] | None = field(default=None, repr=False)

    @property
    def spark(self) -> SparkSession:
        """A session for plans that have to look at data (list partitions, read a catalog).

        Only made when asked for: a plan that does not need Spark does not pay for its start.

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
        self._write(batch, batch_id)
        self._guard.check_lease()

    def __reduce__(self) -> Any:
        """Elsewhere nothing is known of the lease."""
        return _bare, (self._write,)


def _bare(write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], object]:
    return write


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task knows about itself.

    :param job: the job's name
    :param index: which of the job's tasks this is, from 0
    :param config: the task's configuration, as the plan made it
    :param epoch: the assignment under which the task was started
    :param attempt: which try this is, from 1
    :param run_key: names the run of a bounded job; None for a job without runs
    :param checkpoint_location: the folder for this task's streaming checkpoint: the same for the same task on any
        worker, in every run, so that a query goes on where it stopped (see :mod:`airflow_provider.spark.checkpoints`)
    """

    job: str
    index: int
    config: Config = field(repr=False)
    epoch: int
    attempt: int = 1
    run_key: str | None = None
    checkpoint_location: str
    guard: TaskGuard = field(default=_Unguarded(), repr=False)
    share: Share = field(default=_make_for_oneself, repr=False)
    rehearsing: Rehearse = field(default=rehearse_nothing, repr=False)
    writes: AssetWrites = field(default_factory=AssetWrites, repr=False, compare=False)

    @property
    def stopping(self) -> bool:
        """Whether the task has been told to stop: long Python work should end soon."""
        return self.guard.stopping

    def wait(self, timeout_s: float) -> bool:
        """Sleep ``timeout_s`` seconds, or until the task is told to stop; True if it was told."""
        return self.guard.wait(timeout_s)

    def cached(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Reference data that the job's tasks on this worker share: read and cached once, with ``DataFrame.persist``.

        It is kept as long as a task that has asked for it runs here or is made ready, and ten minutes longer.

        :param name: what it is. Whatever ``make`` depends on belongs into it: a date, a path
        :param make: reads it, for the task that asks first; the others wait
        """
        return self.share(f"{self.job}/{name}", make, self.guard)

    def rehearse(self, stream: DataStreamWriter) -> Iterator[float]:
        """In a warm-up: run a query like the task's on a copy of its checkpoint, again and again until it starts no
        faster; gives how far that is, from 0 to 1. It goes on as it is iterated over; a warning names the line where
        nobody does. If it fails, that is logged. In ``run`` it does nothing: the task would stand still for it, and
        could write.

        :param stream: with a sink that keeps nothing, for it gets real batches; reading from what the task's query
            reads from. ``run`` may start it, with its own sink; it then has the task's own checkpoint
        """
        steps = self.rehearsing(stream, self.checkpoint_location, self.guard)
        return Rehearsal(steps, self.guard, traceback.extract_stack(limit=2)[0])

    def fence(self) -> None:
        """To be called right before an external side effect.

        :raises FencedError: if this attempt may not write any more
        """
        self.guard.check()

    def foreach_batch(self, write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
        """``write`` behind a fence, for ``writeStream.foreachBatch(...)``.

        Nothing is written if the attempt may not write. If the lease ended during the writing, the batch is not
        committed to the checkpoint, and the new owner writes it again: use the batch id to replace what is there.

        On Spark Connect ``write`` runs beside the server, which knows of no lease: there the server is the fence. The
        task's next attempt has it end the session of this one, with its query, before it begins.
        """
        return _FencedWrite(write, self.guard)

    def wrote(self, asset: str, rows: SupportsIndex | None = None, *, uri: str | None = None) -> None:
        """Say that the task has written an Airflow asset. What earlier attempts have said no longer counts.

        When the job has finished, an operator that waits for it stores an asset event with the rows of all tasks. Rows
        of several calls for one asset are added up.

        :param asset: its name, or its URI if that is its name, as in ``Asset("s3://lake/orders")``
        :param rows: how many; None: not known, and neither is the sum
        :param uri: of an asset that has both
        :raises ValueError: for a name or a number that can't be accepted, and for more than a hundred assets
        """
        self.writes.add(asset, asset if uri is None else uri, rows)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a TaskContext stays in the worker's process: use a local variable for what a UDF needs of it,"
            " such as config = dict(task.config)"
        )


WarmUp: TypeAlias = "Callable[[SparkSession, TaskContext], Iterator[float] | object]"
"""Makes a task ready to run. A generator yields how far it is, from 0 to 1; what a function returns does not count."""


class SparkJob:
    """A job: how to divide the work, and how to do a part of it. Made anew for each planning and each task."""

    warm_up: WarmUp | None
    """``warm_up(self, spark, task)``: make ``task`` ready to run here, while another worker runs it. A job that has
    none is *stateless*: its tasks move without, but for streams, of which the newest checkpoint files are read. None:
    those are not, either.
    """

    config_schema: type | Mapping[str, Any] | None = None
    """What the job's configuration must look like: a JSON schema, a dataclass or a pydantic model. One that is not
    so is refused as the job is submitted, where the job's module is there, and before it is planned. None: any will do.
    """

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        """The configurations of the tasks: at most ``job.max_tasks`` JSON objects; ``[]`` means nothing to do.

        The same task index should mean the same work from one plan to the next. Where it does not, and the tasks
        stream, give each configuration a ``checkpoint_key`` (see :mod:`airflow_provider.spark.checkpoints`). By
        default one task with the job's configuration.
        """
        return [dict(job.config)]

    def lineage(self, task: TaskContext) -> Lineage:  # noqa: ARG002
        """What the task reads and writes, for OpenLineage; by default nothing. Called right before :meth:`run`. If it
        fails, that is logged, and the task runs.
        """
        return NOTHING_NAMED

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        """Do the work of one task: return a JSON-able result, or the started ``StreamingQuery``."""
        raise NotImplementedError(f"{type(self).__qualname__} must define run(self, spark, task)")


def is_stateful(job: SparkJob) -> bool | None:
    """Whether its tasks have something to warm up; None: it says nothing of it, and streams have."""
    if not hasattr(job, "warm_up"):
        return None
    return job.warm_up is not None


RunFunction: TypeAlias = "Callable[[SparkSession, TaskContext], Any]"
LineageFunction: TypeAlias = "Callable[[TaskContext], Lineage]"
PlanFunction: TypeAlias = "Callable[[JobContext], list[dict[str, Any]]]"


class UnsaidType:
    """The type of :data:`UNSAID`."""

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final = UnsaidType()
"""In place of None, where that has a meaning of its own."""


class FunctionJob(SparkJob):
    """A job made of a function by :func:`spark_job`; calling it calls the function, so that tests can."""

    __name__: str

    def __init__(
        self,
        function: RunFunction,
        plan: PlanFunction | Sequence[Config] | None,
        warm_up: WarmUp | UnsaidType | None = UNSAID,
        config_schema: type | Mapping[str, Any] | None = None,
        lineage: LineageFunction | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._lineage = lineage
        self._plan = plan
        self.config_schema = config_schema
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
) -> Callable[[RunFunction], FunctionJob]: ...


def spark_job(
    function: RunFunction | None = None,
    *,
    plan: PlanFunction | Sequence[Config] | None = None,
    warm_up: WarmUp | UnsaidType | None = UNSAID,
    config_schema: type | Mapping[str, Any] | None = None,
    lineage: LineageFunction | None = None,
) -> FunctionJob | Callable[[RunFunction], FunctionJob]:
    """Make a job of a function ``run(spark, task)``; used bare, or with arguments.

    :param plan: a function of the :class:`JobContext`, or the list of the tasks' configurations itself; without it the
        job has one task with the job's configuration
    :param warm_up: a function of the session and the :class:`TaskContext`, as :attr:`SparkJob.warm_up`
    :param config_schema: as :attr:`SparkJob.config_schema`
    :param lineage: a function of the :class:`TaskContext`, as :meth:`SparkJob.lineage`
    """
    if function is None:
        return lambda function: FunctionJob(function, plan, warm_up, config_schema, lineage)
    return FunctionJob(function, plan, warm_up, config_schema, lineage)
