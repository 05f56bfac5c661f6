"""What a worker does when a task of it fails: retries, their waits, and what is said of its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from executor_bench import A0, A1, AWAY, Bench, bench
from waiting import eventually

from airflow_provider.kafka.topics.errors import TooLargeError, TopicError
from airflow_provider.state.records import JobDefinition, TaskFailure, TaskKind, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.worker.reporting import journal as journal_module
from airflow_provider.worker.reporting.journal import Journal

pytestmark = pytest.mark.turned_clock

# ---- failures


async def test_a_failed_task_is_tried_again_after_the_delay_as_often_as_the_job_says() -> None:
    async with bench() as worker:
        await worker.submit(retries=1, retry_delay_ms=10_000)
        worker.take(A0, A1)
        await worker.runs(A0, A1)
        worker.runner.fail(A0, "first")
        await worker.becomes(A0, TaskState.PENDING)
        told = worker.told(A0)
        assert (told.attempt, told.failures, told.error and told.error.message) == (2, 1, "first")
        assert A0 not in worker.runner.running, "the delay runs"
        await worker.runs(A0, A1)
        assert worker.told(A0).attempt == 2
        worker.runner.fail(A0, "second")
        await worker.becomes(A0, TaskState.FAILED)
        told = worker.told(A0)
        assert (told.state, told.failures, told.error and told.error.message) == (TaskState.FAILED, 2, "second")
        assert worker.runner.running == {A1}, "the other goes on"


async def test_what_another_try_cannot_mend_is_not_tried_again() -> None:
    async with bench() as worker:
        await worker.submit(retries=5)
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.fail(A0, "no such module", retryable=False)
        await worker.becomes(A0, TaskState.FAILED)
        assert len(worker.runner.orders) == 1


async def test_a_task_that_spark_has_no_room_for_waits_as_often_as_it_takes() -> None:
    async with bench() as worker:
        await worker.submit(retries=0)
        worker.take(A0)
        for _ in range(12):
            await worker.runs(A0)
            worker.runner.finds_no_room(A0, "the server is full")
            await worker.becomes(A0, TaskState.PENDING)
        told = worker.told(A0)
        assert (told.attempt, told.failures) == (13, 0)
        assert told.error is not None
        assert told.error.message == "it waits until its Spark has room for it: the server is full"


async def test_a_failure_of_a_task_that_was_told_to_stop_is_no_failure() -> None:
    async with bench() as worker:
        await worker.submit(retries=0)
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.stubborn.add(A0)
        worker.stop(A0)
        worker.runner.fail(A0, "cancelled")
        await worker.releases(A0, into=worker.stopped)
        await worker.becomes(A0, TaskState.STOPPED)
        assert worker.told(A0).failures == 0


async def test_a_task_that_ended_by_its_fence_has_stopped_and_not_failed() -> None:
    async with bench() as worker:
        await worker.submit(retries=0)
        worker.take(A0)
        await worker.runs(A0)
        worker.runner.let_go(A0)
        await worker.releases(A0, into=worker.stopped)
        await worker.becomes(A0, TaskState.STOPPED)


async def test_a_stream_fails_where_its_checkpoint_would_be_left_behind() -> None:
    async with bench(checkpoint_root=None) as worker:
        await worker.submit(retries=5, kind=TaskKind.STREAMING)
        worker.take(A0)
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert error.message.startswith("task a:0 streams, and its worker has no checkpoint_root: give all workers")
        assert worker.told(A0).attempt == 1, "another try would fail as well"
        assert A0 not in [order.task for order in worker.runner.orders]


async def test_a_batch_task_and_the_planner_of_a_stream_need_no_root() -> None:
    async with bench(checkpoint_root=None) as worker:
        await worker.submit()
        stream = JobDefinition(name="s", entry_point="m:f", kind=TaskKind.STREAMING)
        await worker.topics.submit(stream)
        worker.take(A0, planner_of("s"))
        await worker.runs(A0, planner_of("s"))


async def test_a_checkpoint_key_that_cannot_be_a_folder_fails_the_task_with_its_reason() -> None:
    async with bench() as worker:
        job = await worker.submit(tasks=0)
        await worker.plan(job, [{"checkpoint_key": ""}])
        worker.take(A0)
        await worker.becomes(A0, TaskState.FAILED)
        error = worker.told(A0).error
        assert error is not None
        assert "checkpoint_key" in error.message


@pytest.mark.parametrize(
    ("before", "attempt", "failures"),
    [
        ({"state": TaskState.RUNNING, "attempt": 3, "started_at_ms": 1}, 4, 0),
        ({"state": TaskState.STOPPED, "attempt": 3, "started_at_ms": 1, "failures": 2}, 4, 2),
        ({"state": TaskState.PENDING, "attempt": 3, "failures": 2}, 3, 2),
        ({"state": TaskState.RUNNING, "attempt": 3, "started_at_ms": 1, "run_key": "older"}, 1, 0),
        ({"state": TaskState.RUNNING, "attempt": 3, "started_at_ms": 1, "fingerprint": "of other work"}, 1, 0),
    ],
)
async def test_attempts_count_on_whoever_made_the_last_one(before: dict[str, Any], attempt: int, failures: int) -> None:
    async with bench() as worker:
        job = await worker.submit(run_key="r")
        plan = worker.topics.jobs.plan_of(job.name)
        assert plan is not None
        last = {"run_key": "r", "fingerprint": plan.fingerprints[0], **before}
        await worker.topics.publish_task(TaskStatus(task=A0, epoch=Epoch(1), worker=WorkerId("w0"), **last))
        worker.take(A0, epoch=2)
        await worker.runs(A0)
        assert (worker.told(A0).attempt, worker.told(A0).failures) == (attempt, failures)
        assert worker.runner.order_of(A0).attempt == attempt


def _takes_no_more_than(worker: Bench, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """As a topic with a low ``max.message.bytes``."""
    write = worker.topics._write

    async def refuse_long_ones(topic: str, key: str, value: bytes | None) -> None:
        if len(value or b"") > size:
            raise TooLargeError(f"writing {key!r} failed: its size is beyond the topic's max.message.bytes")
        await write(topic, key, value)

    monkeypatch.setattr(worker.topics, "_write", refuse_long_ones)


async def test_a_result_that_the_topic_does_not_take_fails_the_task_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To write it again and again would bring nothing, and the task would never be over."""
    async with bench() as worker:
        await worker.submit(retries=1)
        worker.take(A0)
        await worker.runs(A0)
        _takes_no_more_than(worker, monkeypatch, 1_500)
        worker.runner.finish(A0, "x" * 2_000)
        await worker.becomes(A0, TaskState.FAILED)
        told = worker.told(A0)
        assert (told.state, told.result, told.failures) == (TaskState.FAILED, None, 1)
        assert told.error is not None
        assert "its result is too large for its record: writing 'task:a:0' failed: its size is" in told.error.message


async def test_a_failure_that_the_topic_does_not_take_is_told_without_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench() as worker:
        await worker.submit()
        worker.take(A0)
        await worker.runs(A0)
        _takes_no_more_than(worker, monkeypatch, 1_500)
        worker.runner.fail(A0, "bad row", traceback="x" * 4_000)
        await worker.becomes(A0, TaskState.FAILED)
        told = worker.told(A0)
        assert (told.state, told.failures) == (TaskState.FAILED, 1)
        assert told.error == TaskFailure(message="bad row")


async def test_an_attempt_counts_though_what_was_said_of_it_is_still_on_its_way() -> None:
    """A broker that was away has the last words of before only after the group has given the task back."""
    async with bench() as worker:
        await worker.submit()
        with worker.topics.out_of_order(AWAY):
            worker.take(A0)
            await eventually(lambda: A0 in worker.runner.running)
            worker.stop(A0)
            await worker.releases(A0, into=worker.stopped)
        worker.take(A0, epoch=2)
        await worker.runs(A0)
        assert worker.told(A0).attempt == 2


async def test_a_journal_remembers_nothing_of_tasks_that_have_ended() -> None:
    """A worker may live for months, and see many."""
    journal = Journal(WorkerId("w1"))
    for index in range(3):
        journal.outdate(TaskId("a", index))
    assert not journal._newest


async def test_what_others_wait_for_is_not_written_again_where_no_broker_ever_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as the claim of a checkpoint, in the record of a task."""
    monkeypatch.setattr(journal_module, "_RETRY_S", 0.001)
    journal, tried = Journal(WorkerId("w1")), list[TopicError]()

    async def refused() -> None:
        tried.append(TooLargeError("its size is beyond the topic's max.message.bytes") if tried else AWAY)
        raise tried[-1]

    journal.keep(A0, refused)
    await journal.settle(5)
    assert [type(error) for error in tried] == [type(AWAY), TooLargeError]
    await journal.flush(0)


async def test_what_is_stored_at_the_first_try_takes_no_task_of_the_loop() -> None:
    journal, stored = Journal(WorkerId("w1")), asyncio.get_running_loop().create_future()
    before = asyncio.all_tasks()
    journal.note(lambda: stored)
    journal.keep(A0, lambda: stored)
    assert asyncio.all_tasks() == before
    stored.set_result(None)
    await journal.settle(5)
    await journal.flush(0)


# ---- a topic that is away as a task is to begin


async def test_while_its_start_can_not_be_stored_a_task_waits_and_does_not_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_module, "_RETRY_S", 0.01)
    async with bench() as worker:
        await worker.submit(tasks=1, retries=0)
        with worker.topics.out_of_order(AWAY):
            worker.take(A0)
            await eventually(lambda: worker.runner.running == {A0})
            await asyncio.sleep(0.05)
            assert worker.runner.let_begin == []
        await worker.runs(A0)
        await eventually(lambda: worker.runner.let_begin == [A0])
        assert (worker.told(A0).attempt, worker.told(A0).failures) == (1, 0)


async def test_a_task_that_is_revoked_before_its_start_is_stored_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_RETRY_S", 0.01)
    async with bench() as worker:
        await worker.submit(tasks=1)
        with worker.topics.out_of_order(AWAY):
            worker.take(A0)
            await eventually(lambda: worker.runner.running == {A0})
            worker.stop(A0)
            await worker.releases(A0, into=worker.stopped)
        await asyncio.sleep(0.05)
        assert worker.state(A0) is not TaskState.RUNNING, "nobody writes its start any more"
        assert worker.runner.let_begin == []


async def test_the_starts_of_many_tasks_are_stored_side_by_side() -> None:
    async with bench(slots=50) as worker:
        await worker.submit(tasks=50)
        worker.topics.takes_s = 0.2
        worker.take(*(TaskId("a", index) for index in range(50)))
        await eventually(lambda: len(worker.runner.running) == 50)
        await eventually(lambda: worker.topics.writing >= 50, "all of them are on their way together")
