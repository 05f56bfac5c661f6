"""Who is to blame for an error. The messages are those of Spark 4, Delta 4 and Iceberg 1.10, with fewer frames."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.spark.attempts.blame import (
    Blame,
    NobodyToBlame,
    SparkToBlame,
    TaskToBlame,
    WorkerToBlame,
    WriterToBlame,
    blame,
    blame_for_query,
)
from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.local.errors import SparkGoneError, SparkStartError

FRAME = "\tat org.apache.spark.sql.execution.streaming.StreamExecution.runStream(StreamExecution.scala:311)\n"
QUERY = "=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\nCurrent State: ACTIVE\n"
FAILED = "org.apache.spark.sql.streaming.StreamingQueryException: "
STREAM_FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "

LOG_UPDATE = (
    "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming"
    " jobs detected for 7.\nPlease make sure only one streaming job runs on a specific checkpoint location at a time."
    " SQLSTATE: 40000"
)
CONFLICTS = [
    LOG_UPDATE,
    "java.lang.IllegalStateException: Race while writing batch 7",
    "java.lang.AssertionError: assertion failed: Concurrent update to the log. Multiple streaming jobs detected for 7",
    "org.apache.spark.SparkConcurrentModificationException: Multiple streaming queries are concurrently using file:/c",
    "org.apache.spark.SparkConcurrentModificationException: [CONCURRENT_QUERY] Another instance of this query was",
    "java.lang.IllegalStateException: Cannot start query with id 7 as another query with same id is already active.",
    "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] Files were added by a concurrent update.",
    "io.delta.exceptions.ConcurrentTransactionException: [DELTA_CONCURRENT_TRANSACTION] Multiple streaming queries",
    "org.apache.spark.sql.delta.MetadataChangedException: The metadata of the Delta table has been changed",
    "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit: stale table metadata",
    "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain records matching true",
    "org.apache.iceberg.exceptions.ValidationException: Cannot commit, missing data files: [a.parquet]",
    "org.apache.hudi.exception.HoodieWriteConflictException: Cannot resolve conflicts for overlapping writes",
]
FAULTS = [
    "org.apache.spark.SparkException: [USER_RAISED_EXCEPTION] [CONCURRENT_STREAM_LOG_UPDATE] as in the docs",
    "org.apache.spark.SparkException: Job aborted",
    "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 4 cancelled part of cancelled job group mine",
    "java.lang.IllegalStateException: it looks like this: Race while writing batch 7",
    "org.apache.iceberg.exceptions.ValidationException: Cannot find field 'day' in struct",
    "org.apache.iceberg.exceptions.NoSuchTableException: CommitFailedException",
    "com.example.ConcurrentAppendException: ours",
]


class Py4JJavaError(Exception):
    """As py4j calls it."""


NULL = (
    'Cannot invoke "scala.collection.IterableOps.map(scala.Function1)" because the return value of "scala.Option.get()"'
)
KNOWN_FAULTS = (
    "org.apache.spark.SparkException: Python worker failed to connect back.",
    f"org.apache.spark.SparkException: {STREAM_FAILED}Python worker failed to connect back.",
    f"java.lang.NullPointerException: {NULL} is null",
    "org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 4 cancelled as part of cancellation of all jobs",
)


class StreamingQueryException(Exception):  # noqa: N818
    """As PySpark calls it. It keeps Java's trace apart."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self._stackTrace = trace


class ConcurrentAppendException(Exception):  # noqa: N818
    """As Delta's Python package calls it."""


Py4JJavaError.__module__ = "py4j.protocol"
StreamingQueryException.__module__ = "pyspark.errors.exceptions.captured"
ConcurrentAppendException.__module__ = "delta.exceptions.captured"


def by_py4j(java: str, cause: str = "") -> Py4JJavaError:
    caused = f"Caused by: {cause}\n{FRAME}\t... 3 more\n" if cause else ""
    return Py4JJavaError(f"An error occurred while calling o7.save.\n: {java}\n{FRAME * 3}{caused}")


def failed_query(cause: str) -> str:
    """The trace of a failed query, as Java prints it."""
    return f"{FAILED}{cause.partition(': ')[2]}\n{QUERY}\n{FRAME * 2}Caused by: {cause}\n{FRAME}\t... 1 more\n"


def python(error: str) -> str:
    return f'Traceback (most recent call last):\n  File "/jobs/etl.py", line 7, in write\n    save()\n{error}\n'


def of_batch(error: str) -> str:
    """The trace of a query whose ``foreachBatch`` has raised this: Java quotes it twice."""
    user = "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink."
    said = f"{user} Reason: An exception was raised by the Python Proxy. Return Message: {python(error)}"
    proxy = f"py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: {python(error)}"
    return f"{FAILED}{said}\n{QUERY}\n{FRAME}Caused by: {proxy}{FRAME}\t... 1 more\n"


def judged(error: BaseException) -> Blame:
    return blame(error, lambda plain: plain, nothing_secret)


@pytest.mark.parametrize("java", CONFLICTS)
def test_another_writer_is_to_blame_for_a_conflict_wherever_java_names_it(java: str) -> None:
    wrapped = by_py4j("org.apache.spark.SparkException: Writing job aborted", cause=java)
    query = StreamingQueryException(f"{STREAM_FAILED}{java.partition(': ')[2]}", failed_query(java))
    for error in (by_py4j(java), wrapped, query):
        assert isinstance(judged(error), WriterToBlame)
    assert isinstance(blame_for_query(failed_query(java), nothing_secret), WriterToBlame)


@pytest.mark.parametrize("java", CONFLICTS)
def test_a_conflict_of_a_batchs_own_write_is_one_too(java: str) -> None:
    raised = of_batch(f"py4j.protocol.Py4JJavaError: {by_py4j(java)}")
    assert isinstance(blame_for_query(raised, nothing_secret), WriterToBlame)
    assert isinstance(judged(StreamingQueryException(raised.partition(": ")[2], raised)), WriterToBlame)


@pytest.mark.parametrize("java", KNOWN_FAULTS)
def test_nobody_is_to_blame_for_a_known_fault_of_spark(java: str) -> None:
    query = StreamingQueryException(f"{STREAM_FAILED}{java.partition(': ')[2]}", failed_query(java))
    for error in (by_py4j("org.apache.spark.SparkException: Job aborted", cause=java), query):
        assert isinstance(judged(error), NobodyToBlame)
    assert isinstance(blame_for_query(failed_query(java), nothing_secret), NobodyToBlame)
    assert isinstance(judged(RuntimeError(java)), TaskToBlame), "it is only quoted"


@pytest.mark.parametrize("java", FAULTS)
def test_the_task_is_to_blame_for_everything_else(java: str) -> None:
    for error in (by_py4j(java), by_py4j("org.apache.spark.SparkException: Job aborted", cause=java)):
        assert isinstance(judged(error), TaskToBlame)
    assert isinstance(blame_for_query(failed_query(java), nothing_secret), TaskToBlame)


@pytest.mark.parametrize("java", CONFLICTS)
def test_an_error_of_the_jobs_own_that_quotes_a_conflict_is_the_tasks_fault(java: str) -> None:
    for error in (RuntimeError(java), RuntimeError(str(by_py4j(java))), ValueError(failed_query(java))):
        assert isinstance(judged(error), TaskToBlame)
        raised = of_batch(f"{type(error).__name__}: {error}")
        assert isinstance(blame_for_query(raised, nothing_secret), TaskToBlame)
        assert isinstance(judged(StreamingQueryException(raised.partition(": ")[2], raised)), TaskToBlame)


def test_what_was_raised_from_a_conflict_is_one_and_what_happened_after_it_is_none() -> None:
    conflict = by_py4j(CONFLICTS[0])
    named, careless = RuntimeError("month 3"), NameError("name 'lgo' is not defined")
    named.__cause__, careless.__context__ = conflict, conflict
    assert isinstance(judged(named), WriterToBlame)
    assert isinstance(judged(careless), TaskToBlame)


def test_the_same_holds_for_the_text_of_a_batchs_error() -> None:
    conflict, then = f"py4j.protocol.Py4JJavaError: {by_py4j(CONFLICTS[6])}", python("RuntimeError: month 3")
    named = "The above exception was the direct cause of the following exception:"
    careless = "During handling of the above exception, another exception occurred:"
    assert isinstance(blame_for_query(of_batch(f"{conflict}\n{named}\n\n{then}"), nothing_secret), WriterToBlame)
    assert isinstance(blame_for_query(of_batch(f"{conflict}\n{careless}\n\n{then}"), nothing_secret), TaskToBlame)


def test_the_errors_of_python_packages_and_of_spark_connects_client_are_known() -> None:
    assert isinstance(judged(ConcurrentAppendException("Files were added by a concurrent update")), WriterToBlame)
    connect: Any = type("SparkConnectGrpcException", (Exception,), {"__module__": "pyspark.errors.exceptions.connect"})
    assert isinstance(judged(connect(f"({CONFLICTS[6].replace(': ', ') ', 1)}")), WriterToBlame)
    assert isinstance(judged(connect(LOG_UPDATE.partition(": ")[2])), WriterToBlame)
    assert isinstance(judged(connect(f"{STREAM_FAILED}{LOG_UPDATE.partition(': ')[2]}")), WriterToBlame)
    assert isinstance(judged(connect("[TABLE_OR_VIEW_NOT_FOUND] no `t`")), TaskToBlame)


def test_spark_and_the_worker_are_to_blame_for_their_own_ends_whatever_the_task_has_raised() -> None:
    gone = SparkGoneError("this worker's Spark has ended", spark=4)
    gone.__cause__ = by_py4j(CONFLICTS[0])
    told = judged(gone)
    assert isinstance(told, SparkToBlame)
    assert (told.spark, told.error) == (4, "this worker's Spark has ended")
    assert judged(SparkStartError("there is no Java")) == WorkerToBlame(error="there is no Java")


def test_nothing_secret_is_told() -> None:
    def mask(text: str) -> str:
        return text.replace("hunter2", "***")

    for error in (by_py4j(f"{CONFLICTS[6]} hunter2"), ValueError("hunter2"), SparkStartError("hunter2")):
        assert "hunter2" not in repr(blame(error, lambda plain: plain, mask))
