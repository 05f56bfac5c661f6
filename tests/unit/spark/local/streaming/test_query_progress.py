"""What a streaming query tells of itself while it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from airflow_provider.spark.local.streaming.awaiting import await_termination
from airflow_provider.spark.local.streaming.query_progress import QueryMoves, QueryProgress
from airflow_provider.values.lag import Lag


class Query:
    """Has done these batches when it is looked at, one look after the other; then it ends."""

    def __init__(self, *progress: dict[str, Any] | None) -> None:
        self._progress = list(progress)
        self.lastProgress: dict[str, Any] | None = None
        self.status = {"message": "Getting offsets from a source", "isTriggerActive": True}

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        assert timeout == 30
        if not self._progress:
            return True
        self.lastProgress = self._progress.pop(0)
        return False


def batch(number: int, rate: float, **more: Any) -> dict[str, Any]:
    return {"batchId": number, "processedRowsPerSecond": rate, **more}


def told_of(*progress: dict[str, Any] | None) -> list[QueryProgress]:
    """The batches that are told of."""
    return [news for news in all_told_of(Query(*progress)) if isinstance(news, QueryProgress)]


def all_told_of(query: Any) -> list[QueryProgress | QueryMoves]:
    told: list[QueryProgress | QueryMoves] = []
    await_termination(query, told.append, every_s=30)
    return told


def test_that_it_moves_is_told_while_there_is_nothing_new() -> None:
    """It finds nothing to read, and asks its sources again and again; or it waits for its next trigger."""
    idle = batch(7, 0.0, timestamp="2026-01-01T10:00:00.000Z")
    assert all_told_of(Query(idle, {**idle, "timestamp": "2026-01-01T10:00:10.000Z"}))[1:] == [QueryMoves()]
    waits = Query(None, idle, idle)
    waits.status = {"message": "Waiting for next trigger", "isTriggerActive": False}
    moves, said = QueryMoves(), QueryProgress.of(idle)
    assert all_told_of(waits) == [moves, moves, said, moves], "also with the first batch, which may be known already"


def test_nothing_is_told_of_a_query_that_is_in_one_batch_all_the_time() -> None:
    assert all_told_of(Query(None, None)) == []
    assert all_told_of(Query(batch(7, 1.0), batch(7, 1.0), batch(7, 1.0))) == [
        QueryProgress(batch=7, rows_per_second=1.0)
    ]


def test_a_query_that_has_not_come_to_its_first_batch_does_not_move() -> None:
    """A busy server may take minutes until then."""
    begins = Query(None, None)
    begins.status = {"message": "Initializing sources", "isTriggerActive": False}
    assert all_told_of(begins) == []


def test_how_far_an_idle_query_is_behind_is_told_again_before_it_is_old() -> None:
    times = ("10:00:10", "10:00:40", "10:01:10", "10:01:40")
    told = told_of(*(batch(7, 0.0, timestamp=f"2026-01-01T{time}.000Z") for time in times))
    assert [progress.asked_at_ms for progress in told] == [1_767_261_610_000, 1_767_261_670_000], "after a minute"


def test_each_new_batch_that_is_seen_is_told_once() -> None:
    assert told_of(None, batch(0, 2.0), batch(0, 2.0), batch(7, float("nan"))) == [
        QueryProgress(batch=0, rows_per_second=2.0),
        QueryProgress(batch=7, rows_per_second=0.0),
    ]


def test_that_no_more_rows_come_is_told_once() -> None:
    """Spark then says another progress of the last batch, again and again."""
    idle = batch(7, 0.0, numInputRows=0, timestamp="later")
    told = told_of(batch(7, 12.5, numInputRows=50), idle, {**idle, "timestamp": "still later"})
    assert [(progress.rows, progress.rows_per_second) for progress in told] == [(50, 12.5), (0, 0.0)]


def test_all_that_spark_says_of_a_batch_is_told() -> None:
    """As Spark says it of a query that reads from Kafka, and from files, which say nothing."""
    (told,) = told_of(
        {
            "batchId": 812,
            "numInputRows": 4_000,
            "inputRowsPerSecond": 500.12345,
            "processedRowsPerSecond": 1200.5,
            "durationMs": {"addBatch": 3_000, "triggerExecution": 3_332},
            "sources": [
                {"metrics": {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "42"}},
                {"description": "FileStreamSource", "metrics": {}},
                {"description": "a source that says nothing"},
                {"metrics": {"maxOffsetsBehindLatest": "soon"}},
            ],
        }
    )
    assert told == QueryProgress(
        batch=812,
        rows=4_000,
        rows_per_second_in=500.123,
        rows_per_second=1200.5,
        batch_ms=3_332,
        behind=42,
        lag=Lag(offsets=42, silent=4),
    )


def test_spark_is_read_as_it_has_written() -> None:
    """Not as PySpark shows it: some releases make Python's text of the offsets."""
    offsets = {"endOffset": {"orders": {"0": 10}}, "latestOffset": {"orders": {"0": 12}}}

    class AsPySparkShowsIt(dict[str, Any]):
        json = json.dumps(batch(7, 1.0, sources=[offsets]))

    shown = batch(7, 1.0, sources=[{name: str(offset) for name, offset in offsets.items()}])
    (told,) = told_of(AsPySparkShowsIt(shown))
    assert told.lag == Lag(offsets=2)


def test_a_query_that_fails_fails_the_waiting() -> None:
    class Failing(Query):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
            raise RuntimeError("no disk")

    query: Any = Failing()
    with pytest.raises(RuntimeError, match="no disk"):
        await_termination(query, lambda _progress: None, every_s=30)


@pytest.mark.parametrize("there", [True, False], ids=["Spark answers", "Spark answers no more"])
def test_the_last_batch_before_a_failure_is_told(there: bool) -> None:
    """It tells how well the query has gone, which may not have run long enough to be looked at."""

    class Failing:
        @property
        def lastProgress(self) -> dict[str, Any]:  # noqa: N802
            if not there:
                raise ConnectionRefusedError
            return batch(11, 2.0)

        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
            raise StreamingQueryException("no such customer")

    told: list[QueryProgress | QueryMoves] = []
    query: Any = Failing()
    with pytest.raises(StreamingQueryException):
        await_termination(query, told.append, every_s=30)
    assert told == ([QueryProgress(batch=11, rows_per_second=2.0)] if there else [])
