"""What is said first of Spark's exceptions: the messages are those that PySpark 4.3 gives, with fewer frames."""

from __future__ import annotations

import pytest

from airflow_provider.spark.attempts.failures import describe, describe_query, traceback_of_query, traceback_tail
from airflow_provider.spark.attempts.spark_errors import cause_in
from airflow_provider.spark.job.loading import EntryPointError, load_job
from airflow_provider.spark.local.errors import SparkStartError
from airflow_provider.state.records import TaskFailure, WorkerPhase, WorkerStatus, encode
from airflow_provider.state.records.envelope import decode
from airflow_provider.values.model import Epoch, WorkerId

JAVA = (
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:560)\n"
)
PYTHON = (
    "Traceback (most recent call last):\n"
    '  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 2044, in main\n'
    "    process()\n"
    "    ~~~~~~~^^\n"
    '  File "/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 572, in loads\n'
    "    return cloudpickle.loads(obj, encoding=encoding)\n"
    "{error}\n"
)
MISSING = "ModuleNotFoundError: No module named 'my_jobs'"


class PythonException(Exception):  # noqa: N818
    """As PySpark calls it."""


class Py4JJavaError(Exception):
    """As py4j calls it."""


def of_java(error: str) -> str:
    """What py4j raises for what PySpark does not know."""
    thrown = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker:"
    trace = f"{thrown} {PYTHON.format(error=error)} SQLSTATE: 38000\n"
    return (
        "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most"
        " recent failure: Lost task 0.3 in stage 1.0 (TID 4) (127.0.0.1 executor 0):"
        f" org.apache.spark.api.python.PythonException: {trace}{JAVA * 40}\n\nDriver stacktrace:\n{JAVA * 40}"
        f"Caused by: org.apache.spark.api.python.PythonException: {trace}{JAVA}\t... 1 more\n"
    )


def of_function(error: str) -> str:
    """What PySpark raises for a function that failed."""
    return f"An exception was thrown from the Python worker:\n{PYTHON.format(error=error).rstrip()}"


@pytest.mark.parametrize("message", [of_java(MISSING), of_function(MISSING)], ids=["by py4j", "by PySpark"])
def test_the_cause_on_an_executor_comes_first(message: str) -> None:
    error = Py4JJavaError(message) if "calling" in message else PythonException(message)
    first, second = describe(error).splitlines()[:2]
    assert first == MISSING
    java = "SparkException: Job aborted due to stage failure: "
    assert second.startswith(f"by way of {java if 'calling' in message else 'PythonException: An e'}")
    assert "Traceback" not in describe(error)


def test_the_cause_is_whole_in_the_record_whatever_stands_around_it() -> None:
    error = RuntimeError("month 3")
    error.__cause__ = Py4JJavaError(of_java(MISSING))
    assert MISSING in TaskFailure.of(describe(error)).message
    assert TaskFailure.of(describe(error.__cause__)).message.startswith(MISSING)


def test_the_frames_on_the_executor_are_in_the_traceback() -> None:
    told = traceback_tail(PythonException(of_function(MISSING)))
    assert "serializers.py" in told
    assert told.endswith(MISSING)


def test_of_several_python_errors_the_last_is_told() -> None:
    between = "\nDuring handling of the above exception, another exception occurred:\n\n"
    chained = of_function("KeyError: 'customer'") + between + PYTHON.format(error="ValueError: bad row")
    assert cause_in(chained) == "ValueError: bad row"


def test_a_message_of_several_lines_is_told_whole() -> None:
    assert cause_in(of_function("ValueError: bad row:\n  7, None")) == "ValueError: bad row:\n  7, None"


def test_a_batchs_error_comes_first_too() -> None:
    """What ``foreachBatch`` raises has crossed from Python to Java and back."""
    message = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the Python"
        f" Proxy. Return Message: {PYTHON.format(error='ValueError: bad row')}{JAVA}"
    )
    assert describe(RuntimeError(message)).startswith("ValueError: bad row\nby way of RuntimeError: [STREAM_FAILED]")


QUERY = (
    "=== Streaming Query ===\nIdentifier: [id = 1, runId = 2]\n"
    "Current Committed Offsets: {RateStreamV2[rowsPerSecond=5]: 1}\nCurrent State: ACTIVE\n\nLogical Plan:\n~ Project"
)
QUERY_FAILED = "org.apache.spark.sql.streaming.StreamingQueryException: "


def test_a_failed_query_of_which_a_server_tells_begins_with_the_cause_too() -> None:
    python = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {PYTHON.format(error=MISSING)}"
    message = f"{QUERY_FAILED}{python} SQLSTATE: 38000\n{QUERY}"
    thrown = "[PYTHON_EXCEPTION] An exception was thrown from the Python worker:"
    assert describe_query(message) == f"{MISSING}\nby way of {QUERY_FAILED}{thrown}"
    told = traceback_of_query(message)
    assert told.endswith(f"{MISSING}\n SQLSTATE: 38000")
    assert "serializers.py" in told


def test_nothing_secret_is_told_of_a_query() -> None:
    message = f"{QUERY_FAILED}{PYTHON.format(error='ValueError: hunter2')}"
    for tell in (describe_query, traceback_of_query):
        told = tell(message, lambda text: text.replace("hunter2", "***"))
        assert "***" in told
        assert "hunter2" not in told


def test_the_plan_of_a_query_is_left_out_of_its_error() -> None:
    message = f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: bad row 13\n{QUERY}"
    assert describe(RuntimeError(message)) == f"RuntimeError: {message.partition(chr(10))[0]}"
    assert describe_query(f"{QUERY_FAILED}bad row 13\n{QUERY}") == f"{QUERY_FAILED}bad row 13"
    assert traceback_of_query(f"{QUERY_FAILED}bad row 13\n{QUERY}") == ""


def test_without_python_javas_root_cause_comes_first() -> None:
    message = (
        "An error occurred while calling o1.json.\n: org.apache.spark.SparkException: Job aborted.\n"
        f"{JAVA}Caused by: org.apache.spark.SparkException: Task failed\n{JAVA}"
        f"Caused by: java.io.IOException: No space left on device\n{JAVA}\t... 9 more\n"
    )
    assert describe(Py4JJavaError(message)) == (
        "java.io.IOException: No space left on device\nby way of SparkException: Job aborted."
    )


def test_what_failed_a_spark_task_comes_first() -> None:
    lost = "Lost task 0.3 in stage 1.0 (TID 4) (127.0.0.1 executor 0): java.lang.OutOfMemoryError: Java heap space"
    message = f"Job aborted due to stage failure: Task 0 failed 4 times, most recent failure: {lost}\n{JAVA}"
    assert cause_in(message) == "java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    "message",
    ["bad row", "", "[PATH_NOT_FOUND] Path does not exist: file:/data/in/1. SQLSTATE: 42K03", f"disk full\n{JAVA}"],
)
def test_what_says_it_at_once_is_told_as_it_is(message: str) -> None:
    assert cause_in(message) == ""
    assert describe(ValueError(message)).count("\n") == 0


def entry_point_error(entry_point: str) -> EntryPointError:
    """As it is where only our own code calls for the job."""
    with pytest.raises(EntryPointError) as caught:
        load_job(entry_point, ["json", "no_such_module"])
    error = caught.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


def test_an_error_of_ours_has_no_traceback_that_shows_only_our_own_code() -> None:
    assert traceback_tail(entry_point_error("json:Nope")) == ""
    assert traceback_tail(entry_point_error("os:path")) == ""
    assert "ModuleNotFoundError: No module named" in traceback_tail(entry_point_error("no_such_module:Job"))


def test_what_is_no_text_in_an_error_can_be_written_all_the_same() -> None:
    """A worker that can't start Spark says so when it leaves; else its tasks would wait for it."""
    told = describe(SparkStartError("there is no Java in JAVA_HOME=/opt/\udcff"))
    said = WorkerStatus(worker=WorkerId("w1"), state=WorkerPhase.LEFT, epoch=Epoch(1), slots=1, condition=told)
    assert WorkerStatus.from_json(decode(encode(said.to_json()))) == said
    assert told.endswith(r"JAVA_HOME=/opt/\udcff")
