"""Waits for a streaming query, and reports its progress meanwhile."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress, is_in_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Query = TypeVar("Query")

_AGAIN_S: Final = 60.0
"""How often the same is told of a query that has nothing to read: that it is not behind must not be old news."""


class Looks:
    """What is to be told of a query that is looked at from time to time.

    :param every_s: the time from one look to the next, in seconds
    """

    def __init__(self, every_s: float) -> None:
        self._again_after = math.ceil(_AGAIN_S / every_s)
        self._told: QueryProgress | None = None
        self._asked_at_ms: int | None = None
        self._since = 0

    def next(self, progress: QueryProgress | None, *, in_batch: bool) -> tuple[QueryProgress | QueryMoves, ...]:
        """What to tell after the next look. Whoever hears of the first batch may already know it from an earlier watch,
        so the first look also tells whether the query moves.

        :param progress: its last batch; None: there has been none
        :param in_batch: whether it is in a batch now
        """
        self._since += 1
        asks_again = progress is not None and progress.asked_at_ms != self._asked_at_ms
        if progress is not None:
            self._asked_at_ms = progress.asked_at_ms
            if progress != self._told or (asks_again and self._since >= self._again_after):
                moves = (QueryMoves(),) if self._told is None and not in_batch else ()
                self._told, self._since = progress, 0
                return *moves, progress
        return (QueryMoves(),) if asks_again or not in_batch else ()


def await_termination(
    query: StreamingQuery, tell: Callable[[QueryProgress | QueryMoves], None], *, every_s: float
) -> None:
    """Wait until the query ends.

    :param tell: called with the query's last batch, if this has changed since the last call, or if the query moves. If
        the query fails, it is called once more: the batches before that tell how well the query has gone
    :param every_s: otherwise call ``tell`` at most this often, in seconds
    :raises Exception: if the query failed
    """
    looks = Looks(every_s)

    def look(*, in_batch: bool) -> None:
        said = query.lastProgress
        progress = None if said is None else QueryProgress.of(_as_spark_wrote_it(said))
        for news in looks.next(progress, in_batch=in_batch):
            tell(news)

    try:
        while not query.awaitTermination(every_s):  # type: ignore[arg-type]  # Spark takes parts of seconds, too
            status = query.status
            look(in_batch=is_in_batch(status["message"], trigger_active=status["isTriggerActive"]))
    except Exception as failed:
        if _is_failed_query(failed):
            with contextlib.suppress(Exception):  # that it failed matters more
                look(in_batch=True)
        raise


def _as_spark_wrote_it(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """:param said: ``StreamingQuery.lastProgress``; some releases of PySpark make text of its offsets, but not JSON"""
    written = getattr(said, "json", None)
    return json.loads(written) if isinstance(written, str) else said


def _is_failed_query(error: Exception) -> bool:
    """Whether Spark is there, and says that the query has failed."""
    from pyspark.errors import StreamingQueryException

    return isinstance(error, StreamingQueryException)


def summary_of(query: StreamingQuery) -> dict[str, Any]:
    """The result of a task whose query has ended."""
    progress = query.lastProgress
    return {"query_id": str(query.id), "last_batch": None if progress is None else progress["batchId"]}


def say_left_running(active: Iterable[Any], mine: str | None) -> str | None:
    """A message about the queries that ``run`` has left running in its session; None: there are none.

    :param mine: the id of the query that ``run`` has returned
    """
    left = [query.name or str(query.id) for query in active if str(query.id) != mine]
    return f"run() has left streaming queries running: {', '.join(sorted(left))}" if left else None


def await_batches(
    queries: Iterable[Query],
    last_batch: Callable[[Query], tuple[int, float] | None],
    is_busy: Callable[[Query], bool],
    limit_s: float,
    may_go_on: Callable[[], bool],
) -> None:
    """Wait until each query has completed its current batch. If its last batch took longer than ``limit_s``, don't wait
    for it: it would only be stopped later in the same batch.

    :param last_batch: gives the number of the last completed batch, and how many seconds it took
    :param may_go_on: sleeps briefly, and returns whether to wait further
    """
    known = {query: last for query in queries if (last := last_batch(query)) is not None}
    brief = {query: number for query, (number, seconds) in known.items() if seconds <= limit_s}

    def is_in_batch_after(query: Query, number: int) -> bool:
        last = last_batch(query)
        return is_busy(query) and last is not None and last[0] == number

    while any(is_in_batch_after(query, number) for query, number in brief.items()):
        if not may_go_on():
            return
