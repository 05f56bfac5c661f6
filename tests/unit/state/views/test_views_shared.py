"""What a thousand memberships of one process ask of a group's views is worked out once."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import job, jobs_snapshot
from hypothesis import given
from hypothesis import strategies as st
from waiting import DEADLINE_S

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import (
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    encode,
    task_key,
    worker_key,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusView, Step, steps_since
from airflow_provider.state.views.task_progress import progress
from airflow_provider.state.views.task_progress.progress import configured, group_drained
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

TASK = TaskId("a", 0)
RUNNING = TaskStatus(
    task=TASK,
    state=TaskState.RUNNING,
    epoch=Epoch(1),
    worker=WorkerId("w1"),
    run_key="",
    kind=TaskKind.BATCH,
    fingerprint="",
    attempt=1,
)
WORKER = WorkerStatus(worker=WorkerId("w1"), state=WorkerPhase.DEFERRED, epoch=Epoch(1), slots=2)


class Topic:
    """A status topic that is read as it is written."""

    def __init__(self) -> None:
        self.view = StatusView(clock=wall_ms)

    def task(self, status: TaskStatus) -> None:
        self._put(task_key(status.task), encode(status.to_json()))

    def worker(self, status: WorkerStatus) -> None:
        self._put(worker_key(status.worker), encode(status.to_json()))

    def _put(self, key: str, value: bytes) -> None:
        self.view.apply(key.encode(), value, self.view.offset)


def test_an_answer_is_worked_out_once_for_the_same_thing_and_anew_for_another_like_it() -> None:
    memo: Memo[list[int], int] = Memo()
    asked: list[int] = []

    def ask(thing: list[int]) -> int:
        def work_out() -> int:
            asked.append(1)
            return sum(thing)

        return memo.get(thing, work_out)

    one, other = [1, 2], [1, 2]
    assert (ask(one), ask(one), len(asked)) == (3, 3, 1)
    assert (ask(other), len(asked)) == (3, 2)


def test_what_is_configured_is_worked_out_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_snapshot(job("a"))
    statuses: dict[TaskId, TaskStatus] = {}
    first = configured(jobs, statuses)
    assert not group_drained(jobs, statuses)
    monkeypatch.setattr(progress, "_unfinished", None)
    assert configured(jobs, statuses) is first
    assert not group_drained(jobs, statuses)


def test_other_jobs_or_other_statuses_are_asked_about_anew() -> None:
    jobs, statuses = jobs_snapshot(job("a")), dict[TaskId, TaskStatus]()
    first = configured(jobs, statuses)
    more = replace(jobs, jobs={**jobs.jobs, "b": job("b")})
    assert configured(more, statuses) > first
    failed = replaced(
        RUNNING, task=TaskId("a", -1), state=TaskState.FAILED, run_key=jobs.jobs["a"].run_key,
        fingerprint=jobs.jobs["a"].fingerprint,
    )  # fmt: skip
    assert configured(jobs, {failed.task: failed}) < first
    assert configured(JobsSnapshot(), statuses) == frozenset()


def test_words_of_workers_leave_the_tasks_the_same_object() -> None:
    topic = Topic()
    topic.task(RUNNING)
    before = topic.view.snapshot()
    topic.worker(WORKER)
    after = topic.view.snapshot()
    assert after.workers == {WORKER.worker: WORKER}
    assert after.tasks is before.tasks
    topic.task(replaced(RUNNING, state=TaskState.FINISHED))
    assert topic.view.snapshot().tasks is not before.tasks
    assert before.tasks == {TASK: RUNNING}


def test_a_snapshot_after_a_few_records_copies_little_however_many_tasks_there_are() -> None:
    topic, many = Topic(), 20_000
    for index in range(many):
        topic.task(replaced(RUNNING, task=TaskId("a", index)))
    before = topic.view.snapshot()
    assert len(before.tasks) == many
    topic.task(replaced(RUNNING, state=TaskState.FINISHED))
    tracemalloc.start()
    try:
        after = topic.view.snapshot()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (before.tasks[TASK].state, after.tasks[TASK].state) == (TaskState.RUNNING, TaskState.FINISHED)
    assert taken < many * 4, "bytes: a copy of all takes more than 20 for each"


def test_the_steps_between_two_snapshots_are_told_by_worker_and_compared_once() -> None:
    topic = Topic()
    topic.worker(WORKER)
    topic.task(RUNNING)
    before = topic.view.snapshot()
    assert steps_since(before, before) == {}
    finished = replaced(RUNNING, state=TaskState.FINISHED)
    other = replaced(RUNNING, task=TaskId("a", 1), worker=WorkerId("w2"))
    topic.task(finished)
    topic.task(other)
    after = topic.view.snapshot()
    steps = steps_since(before, after)
    assert steps == {"w1": [Step(RUNNING, finished)], "w2": [Step(None, other)]}
    assert steps_since(before, after) is steps
    kept = before.of_tasks()
    assert steps_since(kept, after) == steps
    assert not kept.workers, "what all workers say is not kept with it"


async def test_nobody_waits_for_a_record_that_is_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many records come together, and some take long: the loops of a triggerer ask for snapshots meanwhile."""
    parsing, go_on = threading.Event(), threading.Event()
    from_json = WorkerStatus.from_json

    def slowly(data: Mapping[str, Any]) -> WorkerStatus:
        if data["slots"] == 7:
            parsing.set()
            assert go_on.wait(DEADLINE_S)
        return from_json(data)

    monkeypatch.setattr(WorkerStatus, "from_json", slowly)
    words = [WORKER, replace(WORKER, slots=7)]
    records = [Record(b"worker:w1", encode(word.to_json()), offset) for offset, word in enumerate(words)]
    feed = GroupFeed("g")
    reader = threading.Thread(target=feed.status.take, args=(records,))
    reader.start()
    try:
        await asyncio.to_thread(parsing.wait, 30)
        asked = asyncio.to_thread(feed.status.snapshot)
        snapshot = await asyncio.wait_for(asked, DEADLINE_S)
        assert (snapshot.offset, dict(snapshot.workers)) == (1, {WORKER.worker: WORKER})
    finally:
        go_on.set()
        reader.join()
    assert feed.status.snapshot().workers[WORKER.worker].slots == 7


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(list(TaskState))), max_size=12), st.integers(0, 12))
def test_the_steps_are_those_that_a_comparison_of_all_tasks_finds(
    words: list[tuple[int, TaskState]], seen: int
) -> None:
    topic = Topic()
    snapshots = [topic.view.snapshot()]
    for index, state in words:
        topic.task(replaced(RUNNING, task=TaskId("a", index), state=state))
        snapshots.append(topic.view.snapshot())
    before, after = snapshots[min(seen, len(words))], snapshots[-1]
    found = {step.last.task: step for steps in steps_since(before, after).values() for step in steps}
    changed = {task for task, last in after.tasks.items() if before.tasks.get(task) != last}
    assert found == {task: Step(before.tasks.get(task), after.tasks[task]) for task in changed}


def test_in_a_topic_that_was_made_anew_every_task_may_have_changed() -> None:
    topic = Topic()
    topic.task(RUNNING)
    before = topic.view.snapshot()
    topic.view.advance(0)
    finished = replaced(RUNNING, state=TaskState.FINISHED)
    topic.view.apply(task_key(TASK).encode(), encode(finished.to_json()), 0)
    assert steps_since(before, topic.view.snapshot()) == {RUNNING.worker: [Step(RUNNING, finished)]}
