"""How far a task is: from what runs it to its record and the worker's log, and what others read of it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from executor_bench import A0, bench
from waiting import eventually

from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import TaskOrder, TaskProgressed
from airflow_provider.spark.runners.attached_tasks.progress_polling import ProgressPolling
from airflow_provider.state.records import SparkWork, StreamProgress, TaskKind, TaskState, TaskStatus, decode
from airflow_provider.values.model import Epoch, TaskId

pytestmark = pytest.mark.turned_clock

HALF = JobCounts(stages=4, stages_done=2, tasks=1_200, tasks_done=700, rows_read=5_000_000, rows_written=9)
IN_WORDS = "2 of 4 stages, 700 of 1,200 Spark tasks, 5,000,000 rows read, 9 rows written"


async def test_a_streams_progress_is_in_its_record_and_not_in_the_timeline(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await eventually(lambda: worker.runner.running == {A0})
        worker.runner.streams(A0)
        await eventually(lambda: worker.topics.status.tasks[A0].kind is TaskKind.STREAMING)
        events = len(worker.topics.events)
        worker.runner.progress(A0, QueryProgress(batch=7, rows_per_second=12.5, behind=3))
        await eventually(lambda: worker.topics.status.tasks[A0].progress is not None)
        last = worker.topics.status.tasks[A0]
        assert isinstance(last.progress, StreamProgress)
        assert (last.state, last.progress.batch, last.progress.rows_per_second) == (TaskState.RUNNING, 7, 12.5)
        assert len(worker.topics.events) == events
        said = "task a:0: batch 7, 12.5 rows/s, 3 offsets behind"
        assert f"{said} when its last batch began" in caplog.messages
        again = QueryProgress(batch=7, rows_per_second=12.5, behind=3, asked_at_ms=5)
        worker.runner.progress(A0, again)
        await eventually(lambda: worker.topics.status.tasks[A0].progress.asked_at_ms == 5)  # type: ignore[union-attr]
        assert caplog.text.count(said) == 1, "only its record says when this was still so"


async def test_a_bounded_tasks_progress_is_in_its_record_and_in_the_log_as_long_as_it_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with bench() as worker:
        await worker.submit(tasks=1)
        worker.take(A0)
        await eventually(lambda: worker.runner.running == {A0})
        worker.runner.progress(A0, HALF)
        await eventually(lambda: worker.topics.status.tasks[A0].work is not None)
        assert worker.topics.status.tasks[A0].progress_in_words() == IN_WORDS
        assert f"task a:0: {IN_WORDS}" in caplog.messages
        worker.runner.finish(A0, {"rows": 9})
        await eventually(lambda: worker.topics.status.tasks[A0].state is TaskState.FINISHED)
        assert worker.topics.status.tasks[A0].progress_in_words() == "", "what it has returned says more"


def test_a_release_that_knows_less_of_it_reads_the_record_all_the_same() -> None:
    """What has always been told of a stream stands where it stood; what is new stands beside it."""
    stream = StreamProgress(batch=7, rows_per_second=12.5, at_ms=30, rows=100, behind=0)
    status = TaskStatus(task=A0, state=TaskState.RUNNING, epoch=Epoch(1), worker="w", progress=stream)  # type: ignore[arg-type]
    written = decode(status.encoded())
    assert {"batch": 7, "rows_per_second": 12.5, "at_ms": 30}.items() <= written["progress"].items()
    older = {**written, "progress": {"batch": 7, "rows_per_second": 12.5, "at_ms": 30}}
    assert TaskStatus.from_json(older).progress_in_words() == "batch 7, 12.5 rows/s"
    assert "work" not in written


@pytest.mark.parametrize(
    ("rate", "words"), [(0.0, "0"), (1.1333, "1.13"), (99.96, "100"), (1200.5, "1,200"), (2_345_678.0, "2,345,678")]
)
def test_a_rate_is_said_as_exactly_as_anybody_wants_to_know_it(rate: float, words: str) -> None:
    told = StreamProgress(batch=7, rows_per_second=rate, at_ms=30, rows_per_second_in=rate)
    assert told.in_words() == f"batch 7, {words} rows/s, {words} rows/s come in"


@pytest.mark.parametrize("wrong", [{"stages": -1}, {"tasks": "many"}, {"rows_read": 2**70}])
def test_what_is_no_count_is_refused(wrong: dict[str, Any]) -> None:
    right = SparkWork(stages=1, stages_done=0, tasks=1, tasks_done=0, rows_read=0, rows_written=0, at_ms=0)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SparkWork.from_json({**right.to_json(), **wrong})


class Looked:
    """Attempts that a test moves on, and what is told of them."""

    def __init__(self, *indexes: int) -> None:
        self.attempts = [self._attempt(index) for index in indexes]
        self.told: list[tuple[int, Any]] = []
        self.looks = 0

    def _attempt(self, index: int) -> Any:
        order = TaskOrder(task=TaskId("a", index), entry_point="m:f", epoch=Epoch(1))
        attempt = SimpleNamespace(order=order, begun=True, counts=JobCounts(), says=JobCounts())

        def count() -> JobCounts:
            self.looks += 1
            if isinstance(attempt.says, Exception):
                raise attempt.says
            said: JobCounts = attempt.says
            return said

        attempt.session = SimpleNamespace(count=count)
        return attempt

    def hear(self, attempt: Any, event: Any) -> None:
        assert isinstance(event, TaskProgressed)
        self.told.append((attempt.order.task.index, event.progress))

    async def looked(self, times: int = 3) -> None:
        seen = self.looks
        await eventually(lambda: self.looks >= seen + times * len(self.attempts))


@pytest.fixture
async def looked() -> Any:
    looked = Looked(0, 1)
    looks = ProgressPolling(lambda: looked.attempts, looked.hear, every_s=0.01)
    looks.go_on()
    yield looked
    looks.close()


async def test_only_what_is_new_is_told(looked: Looked) -> None:
    await looked.looked()
    assert looked.told == []
    looked.attempts[1].says = HALF
    await looked.looked()
    assert looked.told == [(1, HALF)]


async def test_an_attempt_of_which_nothing_can_be_said_hides_no_other(looked: Looked) -> None:
    looked.attempts[0].says = RuntimeError("the JVM does not answer")
    looked.attempts[1].says = HALF
    await eventually(lambda: looked.told == [(1, HALF)])


async def test_nothing_is_told_of_an_attempt_that_has_not_begun(looked: Looked) -> None:
    looked.attempts[0].begun = False
    for attempt in looked.attempts:
        attempt.says = HALF
    await eventually(lambda: looked.told == [(1, HALF)])
    looked.attempts[0].begun = True
    await eventually(lambda: looked.told == [(1, HALF), (0, HALF)])


async def test_it_looks_no_more_when_nothing_runs_and_again_when_something_does() -> None:
    looked = Looked(0)
    looks = ProgressPolling(lambda: looked.attempts, looked.hear, every_s=0.01)
    looks.go_on()
    attempts, looked.attempts = looked.attempts, []
    await eventually(lambda: looks._looking is None or looks._looking.done())
    looked.attempts = attempts
    attempts[0].says = HALF
    looks.go_on()
    await eventually(lambda: looked.told == [(0, HALF)])
    looks.close()
