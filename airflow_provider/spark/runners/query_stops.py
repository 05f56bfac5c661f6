"""Stops streaming queries so that Spark knows what it is.

A query that is told to stop cancels its own jobs, and knows why its batch ends. If somebody else cancels them, before
or meanwhile, its batch has failed: Spark logs that as an error, with a stack trace. So queries are told to stop
first. Jobs are only cancelled if this takes long: a batch may wait for what another thread of its task does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.runners.threads import start_thread

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ALONE_S: Final = 2.0
"""How long queries may take to stop before the other jobs of their task are cancelled, too."""
_AGAIN_S: Final = 0.2


def stop_queries(queries: Iterable[StreamingQuery], cancel_jobs: Callable[[], None]) -> None:
    """Tell all of them to stop, at the same time, and wait until they have.

    :param cancel_jobs: cancels what runs for their task, which may start more at any time
    :raises Exception: if one of them can't be told, or the jobs can't be cancelled
    """
    stops = [_begin_to_stop(query) for query in queries]
    patience_s = ALONE_S
    while wait(stops, timeout=patience_s).not_done:
        cancel_jobs()
        patience_s = _AGAIN_S
    for stop in stops:
        stop.result()


def _begin_to_stop(query: StreamingQuery) -> Future[None]:
    """This needs a thread, as the call returns when the query has stopped."""
    stopped: Future[None] = Future()
    start_thread(partial(_stop, query, stopped), "stop-query")
    return stopped


def _stop(query: StreamingQuery, stopped: Future[None]) -> None:
    try:
        query.stop()
    except Exception as failed:  # noqa: BLE001 - raised again where it is awaited
        stopped.set_exception(failed)
    else:
        stopped.set_result(None)
