"""What a streaming query tells of itself while it runs, from Spark to the topic."""

from __future__ import annotations

from typing import Any

import pytest
from executor_bench import A0, bench
from waiting import eventually

from airflow_provider.records import StreamProgress, TaskKind, TaskState
from airflow_provider.spark.query_progress import QueryProgress, await_termination


class Query:
    """Has done these batches when it is looked at, one look after the other; then it ends."""

    def __init__(self, *progress: dict[str, Any] | None) -> None:
        self._progress = list(progress)
        self.lastProgress: dict[str, Any] | None = None

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        assert timeout == 30
        if not self._progress:
            return True
        self.lastProgress = self._progress.pop(0)
        return False


def batch(number: int, rate: float) -> dict[str, Any]:
    return {"batchId": number, "processedRowsPerSecond": rate}


def test_each_new_batch_that_is_seen_is_told_once() -> None:
    told: list[QueryProgress] = []
    query: Any = Query(None, batch(0, 2.0), batch(0, 2.0), batch(7, float("nan")))
    await_termination(query, told.append)
    assert told == [QueryProgress(batch=0, rows_per_second=2.0), QueryProgress(batch=7, rows_per_second=0.0)]


def test_a_query_that_fails_fails_the_waiting() -> None:
    class Failing(Query):
        def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
            raise RuntimeError("no disk")

    query: Any = Failing()
    with pytest.raises(RuntimeError, match="no disk"):
        await_termination(query, lambda _progress: None)


async def test_a_streams_progress_is_in_its_record_and_not_in_the_timeline() -> None:
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await eventually(lambda: worker.runner.running == {A0})
        worker.runner.streams(A0)
        await eventually(lambda: worker.topics.status.tasks[A0].kind is TaskKind.STREAMING)
        events = len(worker.topics.events)
        worker.runner.progress(A0, 7, 12.5)
        await eventually(lambda: worker.topics.status.tasks[A0].progress is not None)
        last = worker.topics.status.tasks[A0]
        assert isinstance(last.progress, StreamProgress)
        assert (last.state, last.progress.batch, last.progress.rows_per_second) == (TaskState.RUNNING, 7, 12.5)
        assert len(worker.topics.events) == events
