"""Runs a streaming query on a copy of its checkpoint, so that its first real batch is as quick as on a worker where it
has been running: classes are then loaded, its plan is compiled, and a checkpoint has been read once.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.local.pyspark_internals import batches_done, options_of_sources, sink_of
from airflow_provider.spark.local.streaming.checkpoint_copy import CheckpointCopy
from airflow_provider.spark.local.streaming.interrupted_batches import brief_interruptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

FEWEST: Final = 5
MOST: Final = 10
"""The least and the greatest number of starts."""
_FASTER: Final = 0.9
"""A start counts as faster if it took less than this part of the fastest one before."""
_BATCHES: Final = 3
"""How many batches to run after each start, if there are that many."""
_LOOK_S: Final = 0.02
_IDLE_S: Final = 1.0
"""If a query has no other batch for this long, and for as long as its first batch took, it has nothing more to do."""
_LIMIT_S: Final = 60.0
"""The longest wait for a first batch."""
_SINKS: Final = frozenset({"foreachBatch", "foreach", "noop", "memory", "console"})
"""The sinks that keep nothing. What a job's own function does with a batch is up to the job."""
_CLEANING: Final = "cleansource"
"""The option by which a file source deletes or archives what it has read."""


def is_settled(times: Sequence[float]) -> bool:
    """Whether another start would hardly be faster, because the last one was not.

    :param times: from each start to the end of its first batch, in seconds
    """
    return len(times) >= MOST or (len(times) >= FEWEST and times[-1] > _FASTER * min(times[:-1]))


def rehearse(
    spark: SparkSession, stream: DataStreamWriter, location: str, wait: Callable[[float], bool]
) -> Iterator[float]:
    """Start ``stream`` from a copy of the checkpoint at ``location`` and stop it after some batches, again and again
    until it starts no faster. Yields the least progress, from 0 to 1. Nothing is done for a stream without a batch so
    far.

    If a rehearsal fails or is not allowed, it ends with a warning: the real query can run nevertheless.

    :param stream: its sink must keep nothing. At the end, ``location`` is its checkpoint
    :param wait: sleeps this many seconds, and returns whether to end the rehearsal
    """
    copy = CheckpointCopy(spark, location)
    times: list[float] = []
    try:
        refuse_what_leaves_traces(stream)
        going_on = copy.make(lambda: wait(0))
        while going_on and not is_settled(times):
            seconds = _perform(spark, stream, copy.location, wait)
            if seconds is None:
                break
            times.append(seconds)
            yield len(times) / MOST
            copy.rewind()
    except Exception:
        level = logging.DEBUG if wait(0) else logging.WARNING  # if it is to end, its jobs were cancelled
        log.log(level, "A rehearsal with a copy of the checkpoint %s failed", location, exc_info=True)
    finally:
        with contextlib.suppress(Exception):  # the JVM may have ended: a later rehearsal removes the copy
            stream.option("checkpointLocation", location)
            copy.remove()
    if times:
        rounded = [round(each, 1) for each in times]
        log.info("Rehearsed a query: its first batch was done %s s after it was started", rounded)


def refuse_what_leaves_traces(stream: DataStreamWriter) -> None:
    """:raises ValueError: if a rehearsal would write what the real query writes, or take away what it reads"""
    sink = sink_of(stream)
    if sink not in _SINKS:
        raise ValueError(f"the sink {sink} of a rehearsal would keep what it is given; use foreachBatch or noop")
    if any(options.get(_CLEANING, "off").lower() != "off" for options in options_of_sources(stream)):
        raise ValueError("with cleanSource a rehearsal would remove files that the task has not read yet")


def _perform(
    spark: SparkSession, stream: DataStreamWriter, checkpoint: str, wait: Callable[[float], bool]
) -> float | None:
    """:returns: how long the first batch took from the start, in seconds; None: there was none, or this is to end"""
    began = time.monotonic()
    query = stream.option("checkpointLocation", checkpoint).start()
    with brief_interruptions(spark, query):
        try:
            if not _await_batches(query, 1, _LIMIT_S, wait):
                return None
            seconds = time.monotonic() - began
            _await_batches(query, _BATCHES, max(_IDLE_S, seconds), wait)
            return seconds
        finally:
            query.stop()


def _await_batches(query: StreamingQuery, batches: int, patience_s: float, wait: Callable[[float], bool]) -> bool:
    """Whether this many batches were done, each within ``patience_s`` after the one before.

    :raises Exception: if the query has failed
    """
    seen, deadline = 0, time.monotonic() + patience_s
    while (done := batches_done(query)) < batches:
        failed = query.exception()
        if failed is not None:
            raise failed
        if done > seen:
            seen, deadline = done, time.monotonic() + patience_s
        over = not query.isActive and batches_done(query) == done
        if over or time.monotonic() > deadline or wait(_LOOK_S):
            return False
    return True
