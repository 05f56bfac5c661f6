"""Shortens what py4j logs when the stop of a query interrupts a batch: a traceback of 130 lines, as if something had
failed.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CALLS_FROM_JVM: Final = logging.getLogger("py4j.clientserver")
_QUERY_ID: Final = "sql.streaming.queryId"
"""A local property of the thread that runs a query's batches (``StreamExecution.QUERY_ID_KEY``)."""
_INTERRUPTED: Final = re.compile(
    "InterruptedException|InterruptedIOException|ClosedByInterruptException|SPARK_JOB_CANCELLED|OPERATION_CANCELED"
)


class BriefInterruptions(logging.Filter):
    """Replaces the traceback by one line if the batch belongs to this query. Other errors are not changed."""

    def __init__(self, spark: SparkSession, query_id: str) -> None:
        super().__init__()
        self._spark = spark
        self._query_id = query_id

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and _INTERRUPTED.search(str(error)) and self._is_in_its_thread():
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            record.msg, record.args = "Stopped the rehearsed query %s in the middle of a batch", (self._query_id,)
            record.exc_info = record.exc_text = None
        return True

    def _is_in_its_thread(self) -> bool:
        """Whether the batch belongs to this query. This is still inside the call from the JVM, so the JVM answers in
        the thread of the batch.
        """
        try:
            return bool(self._spark.sparkContext.getLocalProperty(_QUERY_ID) == self._query_id)
        except Exception:  # noqa: BLE001 - the JVM has ended, so it is unknown
            return False


@contextlib.contextmanager
def brief_interruptions(spark: SparkSession, query: StreamingQuery) -> Iterator[None]:
    """Shorten these tracebacks while this query may be stopped in the middle of a batch."""
    brief = BriefInterruptions(spark, str(query.id))
    _CALLS_FROM_JVM.addFilter(brief)
    try:
        yield
    finally:
        _CALLS_FROM_JVM.removeFilter(brief)
