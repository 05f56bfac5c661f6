"""Waits for a streaming query, and tells how far it is meanwhile."""

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
    """The last batch of a query. None: Spark or the source does not report it.

    :param batch: its number
    :param rows_per_second: as Spark has processed it
    :param rows: how many it had
    :param rows_per_second_in: rows per second that came in since the batch before
    :param batch_ms: how long it took, in milliseconds
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

    :param tell: called with its last batch, if there is something else to say of it than in the last call
    :param every_s: how often at most, in seconds
    :raises Exception: if the query failed
    """
    told: QueryProgress | None = None
    while not query.awaitTermination(every_s):  # type: ignore[arg-type]  # Spark takes parts of seconds, too
        said = query.lastProgress
        progress = None if said is None else QueryProgress.of(said)
        if progress is not None and progress != told:
            told = progress
            tell(progress)


def summary_of(query: StreamingQuery) -> dict[str, Any]:
    """The result of a task whose query has ended."""
    progress = query.lastProgress
    return {"query_id": str(query.id), "last_batch": None if progress is None else progress["batchId"]}


def say_left_running(active: Iterable[Any], mine: str | None) -> str | None:
    """What is wrong with the queries that ``run`` has left in its session; None: nothing.

    :param mine: the id of the query that it has returned
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
    """Wait until each query has ended the batch that it is in. One whose last batch took longer than ``limit_s`` is not
    waited for: it would be stopped in this one all the same, only later.

    :param last_batch: the number of the last batch that has come to its end, and how many seconds that took
    :param may_go_on: waits a little, and says whether to wait on
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
    """Spark has no rate for a batch that took no time, or for the first one."""
    return round(said, 3) if said is not None and math.isfinite(said) else None


def _behind(sources: Any) -> int | None:
    """Only Spark's Kafka source reports it, as text (``maxOffsetsBehindLatest``)."""
    said = []
    for source in sources:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            said.append(max(0, int(source["metrics"]["maxOffsetsBehindLatest"])))
    return max(said, default=None)
