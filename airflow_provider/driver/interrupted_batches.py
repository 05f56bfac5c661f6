"""What py4j logs of a batch that a stop of its query has interrupted: a traceback of a hundred and thirty lines, as if
something had failed.
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
"""The local property of the thread that does a query's batches (``StreamExecution.QUERY_ID_KEY``)."""
_INTERRUPTED: Final = re.compile(
    "InterruptedException|InterruptedIOException|ClosedByInterruptException|SPARK_JOB_CANCELLED|OPERATION_CANCELED"
)


class BriefInterruptions(logging.Filter):
    """Makes a line of it, where the batch is one of this query. Any other error stays as it is."""

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
        """It is still in the call from the JVM, so what it asks the JVM is answered in the thread of the batch."""
        try:
            return bool(self._spark.sparkContext.getLocalProperty(_QUERY_ID) == self._query_id)
        except Exception:  # noqa: BLE001 - of a JVM that has ended; it is not known then
            return False


@contextlib.contextmanager
def brief_interruptions(spark: SparkSession, query: StreamingQuery) -> Iterator[None]:
    """While this query may be stopped in the middle of a batch."""
    brief = BriefInterruptions(spark, str(query.id))
    _CALLS_FROM_JVM.addFilter(brief)
    try:
        yield
    finally:
        _CALLS_FROM_JVM.removeFilter(brief)
