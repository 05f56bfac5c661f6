"""Makes a new JVM ready for the sinks of streams: it writes two small batches into a table of its own, in Delta or
Iceberg if Spark has been given them, otherwise in Parquet.

The first batch in a JVM takes seconds longer than the next ones (``python -m benchmarks first_batch``): the classes of
the stream, of its checkpoint and of the format are loaded, and its plans are compiled. Which table a task writes, only
its code knows. So the table is beside the checkpoint, where executors can write, and deleted afterwards. Once is enough
for each JVM, so properties of the JVM say that it has been done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.pyspark_internals import take_off_listener_bus
from airflow_provider.spark.local.streaming.rehearsal_folder import RehearsalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

ONE_AT_A_TIME: Final = threading.Lock()
"""The tasks of a process have one JVM."""
_LOOK_S: Final = 0.05
LIMIT_S: Final = 120.0
"""The longest time for the batches of one format, as long as a cluster gives no cores."""
BATCHES: Final = 2
"""The second one finds a table that has been written before, as the real one does."""
_CATALOG: Final = "cospark_rehearsal"


def ready_mark(kind: str) -> str:
    """The property of a JVM that has written this format, or has failed to."""
    return f"cospark.sinks.ready.{kind}"


def warm_sinks(spark: SparkSession, location: str, wait: Callable[[float], bool]) -> Iterator[None]:
    """Write such a table, unless it has been done in this JVM; wait if somebody does it. Yields again and again, and is
    to be closed to end it.

    A failure is logged, and counts as done: the task can run nevertheless, and the next one would wait in vain.

    :param location: the task's checkpoint
    :param wait: sleeps this many seconds; True: there is no time for it
    :raises Exception: if the JVM has ended
    """
    while not ONE_AT_A_TIME.acquire(blocking=False):
        wait(_LOOK_S)
        yield
    try:
        properties: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001
        for kind in formats_of(spark.conf.getAll):
            if properties.getProperty(ready_mark(kind)) is None:
                yield from _write(kind, spark, location, wait)
                properties.setProperty(ready_mark(kind), "")
    finally:
        ONE_AT_A_TIME.release()


def formats_of(conf: Mapping[str, str]) -> list[str]:
    """The formats of tables that a Spark with these settings has; Parquet if it has no other."""
    classes = [
        value
        for key, value in conf.items()
        if key == "spark.sql.extensions" or (key.startswith("spark.sql.catalog.") and key.count(".") == 3)
    ]
    known = {"delta": "io.delta.", "iceberg": "org.apache.iceberg."}
    return [kind for kind, package in known.items() if any(package in name for name in classes)] or ["parquet"]


def _write(kind: str, spark: SparkSession, location: str, wait: Callable[[float], bool]) -> Iterator[None]:
    """:raises Exception: if the JVM has ended"""
    began = time.monotonic()
    session = spark.newSession()
    folder = RehearsalFolder(session, location)
    try:
        folder.make()
        for number in range(BATCHES):
            folder.write(f"rows/{number}", f"{number}\n")
        yield
        yield from _await_end(_start(kind, session, folder), folder, wait)
        log.info("Spark is ready to write streams (%s), after %.1f s", kind, time.monotonic() - began)
    except Exception:
        level = logging.DEBUG if wait(0) else logging.WARNING  # if it is to end, its jobs were cancelled
        log.log(level, "Could not write a small table (%s) beside the checkpoint %s", kind, location, exc_info=True)
    finally:
        folder.remove()
        take_off_listener_bus(session, None)


def _start(kind: str, session: SparkSession, folder: RehearsalFolder) -> StreamingQuery:
    rows = session.readStream.option("maxFilesPerTrigger", 1).text(folder.below("rows"))
    writer = rows.writeStream.format(kind).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", folder.below("checkpoint"))
    if kind != "iceberg":
        return writer.start(folder.below("table"))
    catalog = f"spark.sql.catalog.{_CATALOG}"
    session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{catalog}.type", "hadoop")
    session.conf.set(f"{catalog}.warehouse", folder.below("table"))
    table = f"{_CATALOG}.rows.rows"
    session.sql(f"CREATE TABLE {table} (value STRING) USING iceberg")
    return writer.toTable(table)


def _await_end(query: StreamingQuery, folder: RehearsalFolder, wait: Callable[[float], bool]) -> Iterator[None]:
    """:raises Exception: if the query fails, or takes too long"""
    deadline = time.monotonic() + LIMIT_S
    try:
        while query.isActive:
            if time.monotonic() > deadline:
                raise TimeoutError(f"its two batches have taken more than {LIMIT_S:.0f} s")
            folder.sign()
            wait(_LOOK_S)
            yield
        if (failed := query.exception()) is not None:
            raise failed
    finally:
        query.stop()
