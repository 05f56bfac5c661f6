"""When a stream has gone well for so long that what went wrong before no longer counts.

A stream may run for months, so errors that are far apart must not add up to its end. An attempt has gone well when it
has moved on for a while, or when enough batches were committed since the last attempt that ended badly. A batch that
always fails is never followed by others, so its failures add up, however long it takes to fail. A last try that goes
well is not the last one. A task that ends by itself has no use for this.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import StreamProgress, TaskKind
from airflow_provider.state.records.status_topic.failing import GOOD_MS
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.runs.runs import TaskRun

GOOD_BATCHES: Final = 10


def forgiven(run: TaskRun, *, now_ms: int) -> TaskRun:
    """The task without what went wrong before, if it has gone well since."""
    went_wrong = run.counted_failures or run.conflicts or run.last_try
    if went_wrong and (_has_run_long(run, now_ms) or _batches_since(run) >= GOOD_BATCHES):
        uncounted = replaced(run, forgiven=run.failures, conflicts=0, conflict_since_ms=None)
        return replaced(uncounted, last_try=False, error=None)
    return run


def _has_run_long(run: TaskRun, now_ms: int) -> bool:
    """What counts is the time until it last moved, or all its time if its code keeps the query to itself."""
    moving_ms = run.liveness.moving_ms()
    well_ms = run.ran_ms(now_ms) if moving_ms is None else moving_ms
    return run.kind is TaskKind.STREAMING and well_ms >= GOOD_MS


def _batches_since(run: TaskRun) -> int:
    """How many batches were committed since the last attempt ended badly, as far as it is known."""
    if run.ended_after_batch is None or not isinstance(run.progress, StreamProgress):
        return 0
    return run.progress.batch - run.ended_after_batch
