"""What was made of bytes lately is not made again, and takes no more memory than it may."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from airflow_provider.group.classic.wire import Codec, columns, v1, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.values import recent
from airflow_provider.values.model import NO_TASKS, Assignment, ConfigOffset, TaskId, Tasks, WorkerState
from airflow_provider.values.packed_tasks import PackedTasks
from airflow_provider.values.recent import Recent
from airflow_provider.values.varints import varint


def share(*indexes: int) -> Tasks:
    return frozenset(TaskId("a job of these tests", index) for index in indexes)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Recent[str, str]:
    """Each half has room for three that take 10 bytes."""
    monkeypatch.setattr(recent, "_MOST_BYTES", 30)
    return Recent()


def test_it_forgets_what_was_not_asked_for_while_two_halves_came_in(small: Recent[str, str]) -> None:
    for number in range(7):
        small.put(f"key {number}", f"value {number}", NO_TASKS, 10)
        assert small.get("key 0") == "value 0"
        assert small.get(f"key {number}") == f"value {number}"
    assert small.get("key 1") is None


def test_it_never_holds_more_than_two_halves(small: Recent[str, str]) -> None:
    for number in range(100):
        small.put(str(number), "value", NO_TASKS, 10)
    assert sum(small.get(str(number)) is not None for number in reversed(range(100))) <= 6


def test_tasks_count_for_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_MOST_BYTES", 10_000)
    several: Recent[int, Tasks] = Recent()
    for number in range(20):
        several.put(number, tasks := share(*range(40 * number, 40 * number + 40)), tasks, 0)
    assert 2 <= sum(several.get(number) is not None for number in reversed(range(20))) <= 4


def test_what_alone_would_fill_a_half_is_not_kept(small: Recent[str, str]) -> None:
    small.put("large", "value", NO_TASKS, 31)
    assert small.get("large") is None


def owning(tasks: Tasks, **head: object) -> bytes:
    own = Assignment(version=2, assigned=tasks, **head)  # type: ignore[arg-type]
    return v1.encode_metadata(WorkerState(version=2, url="u", config_offset=own.config_offset, assignment=own))


def test_what_a_member_says_again_is_not_read_again() -> None:
    """Whatever it says beside it."""
    first = v1.decode_metadata(owning(share(1, 2)))
    again = v1.decode_metadata(owning(share(1, 2), config_offset=ConfigOffset(7), leader="another"))
    assert again.owned is first.owned == share(1, 2)
    assert again.config_offset == 7
    assert v1.decode_metadata(owning(share(1, 3))).owned == share(1, 3)


def test_what_stands_behind_the_same_tasks_is_read() -> None:
    for revoked, delay_ms in ((NO_TASKS, 0), (share(4), 0), (share(4), 9), (share(5), 9)):
        told = Assignment(version=2, assigned=share(1, 2), revoked=revoked, delay_ms=delay_ms)
        for _ in range(2):
            assert v1.decode_assignment(v1.encode_assignment(told)) == told


@pytest.mark.parametrize(("codec", "version"), [(v3, 3), (v4, 4)])
def test_a_target_comes_back_as_what_is_owned(codec: Codec[Any, Any], version: int) -> None:
    """The very set: to compare it with what is remembered then takes no look at its tasks."""
    target = share(1, 100 + version)
    sent = ExtensibleAssignment(version=version, target=PackedTasks.of(target))
    told = codec.decode_assignment(codec.encode_assignment(sent))
    assert told.target is not None
    said = codec.decode_metadata(codec.encode_metadata(ExtensibleState(version=version, owned=told.target)))
    assert said.owned.tasks() is target
    assert PackedTasks.of(target) is PackedTasks.of(share(1, 100 + version))


def test_the_same_tasks_are_compressed_and_read_once() -> None:
    """A leader sends a worker its tasks, the worker says that it has them, and gets them again."""
    tasks = PackedTasks.of(share(1, 2, 3))
    sent = columns.pack(tasks)
    assert columns.pack(tasks) is sent
    assert columns.unpack(bytes(bytearray(sent)), columns.MOST) is tasks
    target = v4.decode_assignment(v4.encode_assignment(ExtensibleAssignment(version=4, target=tasks))).target
    owned = v4.decode_metadata(v4.encode_metadata(ExtensibleState(version=4, owned=tasks))).owned
    assert owned is target is tasks


def test_tasks_of_others_are_kept_once_they_were_read() -> None:
    """As a new leader has them, which sends them back as they are."""
    tasks = PackedTasks.of(share(4, 5))
    said = columns.pack(tasks)
    columns.WRITTEN.clear()
    columns.READ.clear()
    owned = columns.unpack(said, columns.MOST)
    assert owned == tasks
    assert columns.pack(owned) is said


def test_what_a_peer_fills_up_with_nothing_is_not_written_again() -> None:
    tasks = PackedTasks.of({TaskId("filled up", 0)})
    written = columns.pack(tasks)
    names, rest = columns.deflated(b"\0filled up"), written[-5:]
    names = b"\0\0\0\xff\xff" * 1000 + names  # so many empty blocks
    columns.WRITTEN.clear()
    assert columns.unpack(varint(2 * len(names) + 1) + names + rest, columns.MOST) == tasks
    assert columns.pack(tasks) == written


def test_tasks_in_another_order_come_out_in_ours() -> None:
    """Another's bytes may have any order; what we make of the same tasks is always the same."""
    one, other = PackedTasks.of([TaskId("a", 1)]), PackedTasks.of([TaskId("b", 2)])
    backwards = PackedTasks.checked(
        other.names + one.names, other.sizes + one.sizes, other.counts + one.counts, other.packed + one.packed
    )
    assert PackedTasks.of(backwards.tasks()).jobs() == ["a", "b"]


def test_long_names_that_a_peer_sends_in_few_bytes_are_not_kept() -> None:
    messages = []
    for message in range(6):
        start = f"all jobs of message {message} have these words in their names, ".ljust(240, ".")
        tasks = PackedTasks.of({TaskId(f"{start}{number:05}", 0) for number in range(5_000)})
        messages.append(columns.pack(tasks))
    assert max(map(len, messages)) < 100_000
    columns.READ.clear()
    columns.WRITTEN.clear()
    tracemalloc.start()
    try:
        for sent in messages:
            columns.unpack(sent, columns.MOST)
            columns.READ.clear()
            columns.WRITTEN.clear()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2_000_000, "the names of one of them take more than a million bytes"
