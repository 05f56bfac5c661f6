"""What need not be parsed is nothing that anybody would miss."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.feeds.superseded import superseded
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import (
    GROUP_KEY,
    TaskFailure,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
    encode,
    task_key,
    worker_key,
)
from airflow_provider.state.views.status_view import StatusSnapshot, StatusView
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1 = WorkerId("w1")
A0 = TaskId("a", 0)
STATES = [state for state in TaskState if state is not TaskState.UNASSIGNED]


def word(state: TaskState = TaskState.RUNNING, task: TaskId = A0, **fields: Any) -> tuple[str, bytes]:
    status = TaskStatus(task=task, state=state, epoch=Epoch(3), worker=W1, run_key="r", fingerprint="f")
    return task_key(task), encode(replaced(status, **fields).to_json())


def a_round(epoch: int, **fields: Any) -> tuple[str, bytes]:
    return GROUP_KEY, encode(record_of({W1: frozenset({A0})}, epoch=epoch, **fields).to_json())


def records_of(*words: tuple[str, bytes | None]) -> list[Record]:
    return [Record(key.encode(), value, offset) for offset, (key, value) in enumerate(words)]


def snapshot(records: Sequence[Record]) -> StatusSnapshot:
    """One record after the other."""
    view = StatusView(clock=wall_ms)
    for record in records:
        view.apply(*record)
    return view.snapshot()


HANDLE = {"server": "sc://h", "session_id": "s"}
FINISHED = word(TaskState.FINISHED, finished_at_ms=9, result={"rows": [1, {"epoch": 99, "state": "failed"}]})


@pytest.mark.parametrize(
    ("words", "skipped"),
    [
        ((word(), FINISHED), {0}),
        ((word(TaskState.PENDING), word(started_at_ms=7), word(TaskState.FAILED)), {0, 1}),
        ((word(TaskState.STOPPED, attempt=1), word(TaskState.FINISHED, attempt=2, epoch=Epoch(4))), {0}),
        ((word(error=TaskFailure.of("x")), FINISHED), {0}),
        ((word(), word(TaskState.STOPPED)), set()),
        ((FINISHED, word()), set()),
        ((FINISHED, FINISHED), set()),
        ((word(epoch=Epoch(4)), FINISHED), set()),
        ((word(attempt=2), FINISHED), set()),
        ((word(run_key="s"), FINISHED), set()),
        ((word(), (task_key(A0), None), FINISHED), set()),
        ((word(task=TaskId("a", 1)), FINISHED), set()),
        ((word(handle=HANDLE), FINISHED), set()),
        ((word(handle=HANDLE), word(TaskState.PENDING, after=HANDLE), FINISHED), set()),
        ((word(), word(handle=HANDLE), FINISHED), set()),
        ((word(handle=HANDLE), word(task=TaskId("a", 1)), word(TaskState.FINISHED, TaskId("a", 1))), {1}),
        ((word(worker=WorkerId('w","state":"finished')), FINISHED), set()),
        ((a_round(3), word(), a_round(4), a_round(5)), {0, 2}),
        ((a_round(5), a_round(5), a_round(4)), set()),
    ],
)
def test_only_what_a_later_record_says_as_well_is_skipped(
    words: Sequence[tuple[str, bytes | None]], skipped: set[int]
) -> None:
    assert superseded(records_of(*words)).keys() == skipped


tasks = st.builds(
    word,
    st.sampled_from(STATES),
    st.sampled_from([A0, TaskId("a", 1)]),
    epoch=st.integers(1, 4).map(Epoch),
    attempt=st.integers(1, 3),
    run_key=st.sampled_from(["r", "s"]),
    started_at_ms=st.sampled_from([None, 5]),
    result=st.sampled_from([None, {"epoch": 9}, '"state":"finished",']),
    error=st.sampled_from([None, TaskFailure(message='"epoch":9,', traceback="")]),
)
streams = st.builds(
    word,
    st.sampled_from(STATES),
    epoch=st.integers(1, 2).map(Epoch),
    handle=st.sampled_from([None, HANDLE, {**HANDLE, "session_id": "t"}]),
    after=st.sampled_from([None, HANDLE]),
)
rounds = st.builds(
    a_round,
    st.integers(1, 5),
    leader_member=st.sampled_from(["m1", "m2"]),
    reason=st.sampled_from(["", '"epoch":9,"generation":9,"leader":"']),
)
others = st.sampled_from(
    [
        (task_key(A0), None),
        (task_key(A0), b"garbage"),
        (GROUP_KEY, None),
        (GROUP_KEY, b'{"v":1}'),
        (worker_key(W1), encode(WorkerStatus(worker=W1, state=WorkerPhase.LEFT, epoch=Epoch(2), slots=1).to_json())),
    ]
)


@given(st.lists(st.one_of(tasks, rounds, others), max_size=12) | st.lists(streams, max_size=6), st.integers(0, 12))
def test_a_feed_adds_up_to_what_one_record_after_the_other_does(words: list[tuple[str, bytes]], cut: int) -> None:
    records = records_of(*words)
    feed = GroupFeed("g").status
    for batch in (records[:cut], records[cut:]):
        feed.take(batch)
    seen, wanted = feed.snapshot(), snapshot(records)
    assert (seen.group, dict(seen.workers), dict(seen.tasks)) == (wanted.group, wanted.workers, wanted.tasks)
    assert seen.unended == wanted.unended
    assert (seen.offset, seen.unreadable) == (wanted.offset, wanted.unreadable)


def test_a_record_that_stands_for_others_must_be_readable() -> None:
    records = records_of(word(), (task_key(A0), FINISHED[1].replace(b'"kind":"batch"', b'"kind":"odd"')))
    assert superseded(records) == {0: 1}
    feed = GroupFeed("g").status
    feed.take(records)
    assert feed.snapshot().tasks[A0].state is TaskState.RUNNING


def test_of_much_garbage_one_line_is_said_and_of_one_record_what_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    feed = GroupFeed("g").status
    garbage = records_of(*((task_key(TaskId("a", index)), b"garbage") for index in range(184)))
    for begin in range(0, 184, 50):
        feed.take(garbage[begin : begin + 50])
    assert not caplog.messages, "more may come"
    feed.reached(184)
    (line,) = caplog.messages
    assert line.startswith(
        "g.status: 184 records from offset 0 to 183 can't be read and are skipped; the first one: the"
    )
    assert feed.snapshot().unreadable == 184
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        feed.take([Record(b"task:a:0", b"more", 184)])
    (line,) = caplog.messages
    assert line.startswith("g.status: the record at offset 184 with key b'task:a:0' can't be read and is skipped: ")
