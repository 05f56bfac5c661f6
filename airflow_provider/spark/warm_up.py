"""Makes a task ready to run, as its job says or as for every stream. Uses neither threads nor PySpark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.attempts.blame import (
    Blame,
    NobodyToBlame,
    SparkToBlame,
    TaskToBlame,
    WorkerToBlame,
    WriterToBlame,
    blame,
)
from airflow_provider.spark.attempts.failures import Mask, Printed
from airflow_provider.spark.attempts.run_attempt import TaskSession, task_context
from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.local.isolation.forks import only_in_this_process
from airflow_provider.spark.runner import (
    NoSparkToWarmUp,
    TaskOrder,
    WarmUpConflicted,
    WarmUpFailed,
    WarmUpLost,
    WarmUpReady,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Outcome = WarmUpReady | WarmUpFailed | WarmUpConflicted | WarmUpLost | NoSparkToWarmUp
"""The last event of a warm-up."""


class WarmUpWritesError(Exception):
    """A warm-up was about to write, while the task runs elsewhere."""


class WarmUpGuard:
    """The stop signal of one warm-up (a :class:`~airflow_provider.spark.job.TaskGuard`). Any thread may use it. It
    refuses all writes.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()

    def stop(self) -> None:
        """Tell the warm-up to end."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def wait(self, timeout_s: float) -> bool:
        return self._stop.wait(timeout_s)

    def check(self) -> None:
        raise WarmUpWritesError(
            "warm_up() may not write: the task runs on another worker meanwhile, and task.fence() never lets it;"
            " read and cache there, and write in run()"
        )

    check_lease = check


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmedUp:
    """The result of a warm-up.

    :param outcome: its last event; None if it was stopped
    :param job: the job object that was warmed up; None if the warm-up has failed or was stopped in the middle of a
        step: the task then begins with a new object, in the same session
    """

    outcome: Outcome | None
    job: SparkJob | None


def warm_up(
    order: TaskOrder,
    guard: WarmUpGuard,
    session: TaskSession,
    load: Callable[[], SparkJob],
    tell: Callable[[float], None],
    mask: Mask,
) -> WarmedUp:
    """Make the task of ``order`` ready to run in ``session``; never raises. A generator is stopped where it yields.

    :param load: makes the job object
    :param tell: called with the progress, from 0 to 1
    """
    try:
        with only_in_this_process(mask):
            job = load()
            if not guard.stopping:
                _follow(_steps(job, session, order, guard), guard, tell)
    except BaseException as error:  # noqa: BLE001  the job may raise anything
        if guard.stopping:
            log.debug("The warm-up of task %s ended while stopping: %s", order.task, Printed(error, mask))
            return WarmedUp(outcome=None, job=None)
        return WarmedUp(outcome=_ended_by(blame(error, session.explain, mask), order), job=None)
    return WarmedUp(outcome=None if guard.stopping else WarmUpReady(order=order), job=job)


def _follow(steps: Iterator[float], guard: WarmUpGuard, tell: Callable[[float], None]) -> None:
    for progress in steps:
        if guard.stopping:
            break
        tell(_part(progress))
    close = getattr(steps, "close", None)
    if close is not None:
        close()


def _part(progress: Any) -> float:
    """:raises TypeError: if it is not a number; a bare ``yield`` gives None"""
    try:
        return min(max(float(progress), 0.0), 1.0)
    except (TypeError, ValueError):
        raise TypeError(f"warm_up() must yield how far it is, a number from 0 to 1, not {progress!r:.60}") from None


def _steps(job: SparkJob, session: TaskSession, order: TaskOrder, guard: WarmUpGuard) -> Iterator[float]:
    spark, task = session.open(), task_context(order, guard, session, session.rehearse)
    if guard.stopping:  # while Spark started
        return
    own = getattr(job, "warm_up", _nothing_more)
    if not order.bounded and own is not None:
        for progress in session.prepare_stream(order.checkpoint_location, guard):
            yield progress if own is _nothing_more else 0.0
    if guard.stopping:
        return
    steps: object = None if own is None else own(spark, task)
    if isinstance(steps, Iterator):  # what else it returns does not count; to go through a DataFrame never ends
        yield from steps


def _nothing_more(_spark: SparkSession, _task: TaskContext) -> None:
    """The warm-up of a job without one of its own."""


def _ended_by(verdict: Blame, order: TaskOrder) -> Outcome:
    match verdict:
        case TaskToBlame(error=error, traceback=traceback) | NobodyToBlame(error=error, traceback=traceback):
            return WarmUpFailed(order=order, error=error, traceback=traceback)
        case WorkerToBlame(error=error):
            return NoSparkToWarmUp(order=order, error=error)
        case SparkToBlame(spark=spark):
            return WarmUpLost(order=order, spark=spark)
        case WriterToBlame(error=error):
            return WarmUpConflicted(order=order, error=error)
