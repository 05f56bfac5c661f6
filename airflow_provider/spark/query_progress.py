"""Waits for a streaming query, and tells how far it is meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TELL_EVERY_S: Final = 30.0
"""Each time a record is written, of each stream: no more often than anybody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """How far a query is.

    :param batch: the number of its last batch
    :param rows_per_second: as Spark has processed that batch
    """

    batch: int
    rows_per_second: float


def await_termination(
    query: StreamingQuery, tell: Callable[[QueryProgress], None], *, every_s: float = TELL_EVERY_S
) -> None:
    """Wait until the query ends.

    :param tell: called with its last batch, if there was another one since the last call
    :param every_s: how often at most, in seconds
    :raises Exception: if the query failed
    """
    last: int | None = None
    while not query.awaitTermination(every_s):  # type: ignore[arg-type]  # Spark takes parts of seconds, too
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != last:
            last = batch = int(progress["batchId"])
            tell(QueryProgress(batch=batch, rows_per_second=_finite(progress["processedRowsPerSecond"])))


def _finite(rate: float | None) -> float:
    """Spark has no rate for a batch that took no time."""
    return round(rate, 3) if rate is not None and math.isfinite(rate) else 0.0
