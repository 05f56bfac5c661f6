"""What is logged of a batch that was interrupted, because its query was stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.spark.local.streaming.interrupted_batches import brief_interruptions

CALLS = logging.getLogger("py4j.clientserver")
INTERRUPTED = "An error occurred while calling o6310.collectToPython.\n: java.lang.InterruptedException\n\tat java"
CANCELLED = "[SPARK_JOB_CANCELLED] Job 7 cancelled part of cancelled job group 1620b0eb"


class Context:
    """Has the local property of the thread that calls; None: its JVM has ended."""

    query_id: str | None = "rehearsed"

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        assert name == "sql.streaming.queryId"
        if self.query_id is None:
            raise OSError("the JVM is gone")
        return self.query_id


@pytest.fixture
def context() -> Iterator[Context]:
    """While a query is rehearsed."""
    context = Context()
    spark: Any = SimpleNamespace(sparkContext=context)
    query: Any = SimpleNamespace(id="rehearsed")
    with brief_interruptions(spark, query):
        yield context


def a_batch_ends_with(message: str) -> None:
    """As py4j tells it."""
    error = RuntimeError(message)
    CALLS.error("There was an exception while executing the Python Proxy on the Python Side.", exc_info=error)


@pytest.mark.parametrize("message", [INTERRUPTED, CANCELLED])
@pytest.mark.usefixtures("context")
def test_an_interrupted_batch_is_one_line(caplog: pytest.LogCaptureFixture, message: str) -> None:
    caplog.set_level(logging.INFO)
    a_batch_ends_with(message)
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage() == "Stopped the rehearsed query rehearsed in the middle of a batch"
    assert caplog.text.count("\n") == 1


@pytest.mark.parametrize(
    ("message", "query_id"),
    [("division by zero", "rehearsed"), (INTERRUPTED, "another"), (INTERRUPTED, None)],
    ids=["it has failed", "of another query", "not known whose"],
)
def test_every_other_error_stays_visible(
    caplog: pytest.LogCaptureFixture, context: Context, message: str, query_id: str | None
) -> None:
    context.query_id = query_id
    a_batch_ends_with(message)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info
    assert message in caplog.text


def test_afterwards_all_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    nobody: Any = SimpleNamespace(id="rehearsed", sparkContext=Context())
    with brief_interruptions(nobody, nobody):
        pass
    a_batch_ends_with(INTERRUPTED)
    assert caplog.records[0].levelname == "ERROR"
