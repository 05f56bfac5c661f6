"""Reads from a query's progress how much its sources had that it had not read, when its last batch began.

Spark's own Kafka source gives its offsets. A table or folder says it only if its connector does: those of Databricks
report files and bytes (``numFilesOutstanding``, ``numBytesOutstanding``). The file source of Spark, and the sources of
open Delta and Iceberg, say nothing, and nothing can be known of them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow_provider.values.lag import Lag

_FILES: Final = "numFilesOutstanding"
_BYTES: Final = ("numBytesOutstanding", "estimatedTotalBytesBehindLatest")
_MOST_OFFSETS: Final = "maxOffsetsBehindLatest"
_TABLE_VERSION: Final = "reservoirVersion"
_SILENT: Final = Lag(silent=1)


def lag_of(sources: Iterable[Mapping[str, Any]]) -> Lag:
    """:param sources: as in ``StreamingQuery.lastProgress``"""
    return Lag.of_all(map(_lag_of, sources))


def most_offsets(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """How many offsets the slowest of all partitions is behind; None: no source says it."""
    said = (_count(_metrics(source).get(_MOST_OFFSETS)) for source in sources)
    return max((offsets for offsets in said if offsets is not None), default=None)


def _lag_of(source: Mapping[str, Any]) -> Lag:
    metrics = _metrics(source)
    latest, end = _offset(source.get("latestOffset")), _offset(source.get("endOffset"))
    offsets, versions, in_part = _offsets_between(end, latest), _versions_between(end, latest), False
    if offsets is None and versions is None and latest is not None and latest == end:
        offsets = 0
    elif offsets is None and versions is None:
        offsets = _count(metrics.get(_MOST_OFFSETS))
        in_part = bool(offsets)  # it is that of the slowest partition
    lag = Lag(
        silent=int(in_part),
        offsets=offsets,
        files=_count(metrics.get(_FILES)),
        versions=versions,
        bytes=next((said for name in _BYTES if (said := _count(metrics.get(name))) is not None), None),
    )
    return lag if lag.units else _SILENT


def _metrics(source: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = source.get("metrics")
    return metrics if isinstance(metrics, Mapping) else {}


def _offset(said: Any) -> Any:
    """An offset as a value. PySpark gives some as the text that Spark's JSON has for them."""
    if isinstance(said, str):
        with contextlib.suppress(ValueError):
            return json.loads(said)
    return said


def _offsets_between(end: Any, latest: Any) -> int | None:
    """The difference of two offsets of Kafka, ``{topic: {partition: offset}}``, over all partitions that are there
    now; None: they are no such offsets.
    """
    with contextlib.suppress(AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return sum(
            max(0, int(offset - end[topic][partition]))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    return None


def _versions_between(end: Any, latest: Any) -> int | None:
    """The same of two offsets of Delta. One in the same version may still have files of it to read."""
    with contextlib.suppress(KeyError, OverflowError, TypeError, ValueError):
        versions = latest[_TABLE_VERSION] - end[_TABLE_VERSION]
        return max(int(latest != end), int(versions))
    return None


def _count(said: Any) -> int | None:
    """A metric, which is text. A source that has been read further than it knew is not behind."""
    with contextlib.suppress(OverflowError, TypeError, ValueError):
        return max(0, int(float(said)))
    return None
