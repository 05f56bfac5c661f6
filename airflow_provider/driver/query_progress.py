"""Waits for a streaming query, and reports its progress meanwhile."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Query = TypeVar("Query")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The last batch of a query. A field is None if Spark or the source does not report it.

    :param batch: the number of the batch
    :param rows_per_second: how many rows of the batch Spark has processed per second
    :param rows: how many rows the batch had
    :param rows_per_second_in: how many rows per second came in since the batch before
    :param batch_ms: how long the batch took, in milliseconds
    :param behind: how many offsets its slowest partition was behind when the batch began
    """

    batch: int
    rows_per_second: float
    rows: int | None = None
    rows_per_second_in: float | None = None
    batch_ms: int | None = None
    behind: int | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> QueryProgress:
        """:param said: ``StreamingQuery.lastProgress``"""
        rate_in = said.get("inputRowsPerSecond")
        return cls(
            batch=int(said["batchId"]),
            rows_per_second=_rate(said.get("processedRowsPerSecond")) or 0.0,
            rows=said.get("numInputRows"),
            rows_per_second_in=_rate(rate_in),
            batch_ms=(said.get("durationMs") or {}).get("triggerExecution"),
            behind=_behind(said.get("sources") or ()),
        )


def await_termination(query: StreamingQuery, tell: Callable[[QueryProgress], None], *, every_s: float) -> None:
    """Wait until the query ends.

    :param tell: called with the query's last batch, if this has changed since the last call. If the query fails, it is
        called once more: the batches before that tell how well the query has gone
    :param every_s: otherwise call ``tell`` at most this often, in seconds
    :raises Exception: if the query failed
    """
    told: QueryProgress | None = None

    def look() -> None:
        nonlocal told
        said = query.lastProgress
        progress = None if said is None else QueryProgress.of(said)
        if progress is not None and progress != told:
            told = progress
            tell(progress)

    try:
        while not query.awaitTermination(every_s):  # type: ignore[arg-type]  # Spark takes parts of seconds, too
            look()
    except Exception as failed:
        if _is_failed_query(failed):
            with contextlib.suppress(Exception):  # that it failed matters more
                look()
        raise


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


def _rate(said: float | None) -> float | None:
    """None: Spark has no rate for the first batch, or for one that took no time."""
    return round(said, 3) if said is not None and math.isfinite(said) else None


def _behind(sources: Any) -> int | None:
    """Only Spark's Kafka source reports it, as text (``maxOffsetsBehindLatest``)."""
    said = []
    for source in sources:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            said.append(max(0, int(source["metrics"]["maxOffsetsBehindLatest"])))
    return max(said, default=None)
