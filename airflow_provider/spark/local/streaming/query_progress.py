"""How far a streaming query is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from airflow_provider.spark.local.streaming.source_lag import lag_of, most_offsets
from airflow_provider.values.lag import NOTHING_SAID, Lag

_INITIALIZING: Final = "Initializing"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """The last batch of a query. A field is None if Spark or the source does not report it.

    :param batch: the number of the batch
    :param rows_per_second: how many rows of the batch Spark has processed per second
    :param rows: how many rows the batch had
    :param rows_per_second_in: how many rows per second came in since the batch before
    :param batch_ms: how long the batch took, in milliseconds
    :param behind: how many offsets its slowest partition was still to read after this batch, of those that were there
        when the batch began
    :param lag: what all its sources had then that this batch did not read
    :param asked_at_ms: when the batch began, and its sources were asked how far they are (Spark's wall clock,
        milliseconds since 1970). Equal ones may differ in this: with nothing to read, a query asks again and again
    """

    batch: int
    rows_per_second: float
    rows: int | None = None
    rows_per_second_in: float | None = None
    batch_ms: int | None = None
    behind: int | None = None
    lag: Lag = NOTHING_SAID
    asked_at_ms: int | None = field(default=None, compare=False)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> QueryProgress:
        """:param said: what Spark has last said of a query, its JSON"""
        sources = said.get("sources") or ()
        return cls(
            batch=int(said["batchId"]),
            rows_per_second=_rate(_total("processedRowsPerSecond", said)) or 0.0,
            rows=_total("numInputRows", said),
            rows_per_second_in=_rate(_total("inputRowsPerSecond", said)),
            batch_ms=(said.get("durationMs") or {}).get("triggerExecution"),
            behind=most_offsets(sources),
            lag=lag_of(sources),
            asked_at_ms=_time_of(said.get("timestamp")),
        )


@dataclass(frozen=True, slots=True)
class QueryMoves:
    """The query is between two batches, or has found nothing to read. There is nothing new to tell of it."""


def is_in_batch(message: str, *, trigger_active: bool) -> bool:
    """Whether a query is in a batch, looks for one, or has not come so far since its start.

    :param message: what Spark says that it does
    :param trigger_active: what Spark says besides; not yet before the first batch
    """
    return trigger_active or message.startswith(_INITIALIZING)


def _total(name: str, said: Mapping[str, Any]) -> Any:
    """A figure of all sources. A Spark Connect server gives it for each source only; None: nobody gives it."""
    if said.get(name) is not None:
        return said[name]
    known = [source[name] for source in said.get("sources") or () if isinstance(source.get(name), int | float)]
    return sum(known) if known else None


def _rate(said: float | None) -> float | None:
    """None: Spark has no rate for the first batch, or for one that took no time."""
    return round(said, 3) if said is not None and math.isfinite(said) else None


def _time_of(timestamp: Any) -> int | None:
    """:param timestamp: as Spark writes it: ``2026-01-31T10:00:00.000Z``"""
    try:
        moment = datetime.fromisoformat(str(timestamp).replace("Z", "+00:00"))
    except ValueError:
        return None
    return None if moment.tzinfo is None else max(0, round(moment.timestamp() * 1000))
