"""Version 3 of the embedded protocol: bytes written by hand, round trips, and what can't be sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from extensible_messages import Writer, assignments, read_assignment, read_metadata, states, task_ids
from generated import extensible_generated
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_provider.group.classic.wire import codec_of_bytes, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.values.model import (
    LocalProtocolError,
    TaskId,
    planner_of,
)
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks

pytestmark = pytest.mark.usefixtures("nothing_kept")
from_hex = bytes.fromhex
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestBytes:
    def test_a_version_and_a_flatbuffer(self) -> None:
        data = from_hex(
            "0003"  # the version; big-endian, unlike the rest
            "0c000000"  # the root table is at byte 12 from here
            "0600 0800 0400"  # its vtable has 6 bytes, the table 8; the first field is at byte 4 of that
            "0000"  # so that the table is at a multiple of four
            "08000000"  # the table: its vtable is 8 bytes before
            "04000000"  # url: 4 bytes on
            "01000000 75 000000"  # one byte, "u", and at least one zero
        )
        assert v3.decode_metadata(data) == ExtensibleState(url="u")
        assert v3.encode_metadata(ExtensibleState(url="u")) == data

    def test_what_is_as_by_default_takes_no_bytes(self) -> None:
        assert v3.encode_metadata(ExtensibleState()) == from_hex("0003 08000000 04000400 04000000")
        assert v3.encode_assignment(ExtensibleAssignment()) == v3.encode_metadata(ExtensibleState())

    def test_an_empty_target_is_not_an_absent_one(self) -> None:
        """One is all that the worker is to have; without the other it keeps what it has."""
        for target in (None, NOTHING, PackedTasks.of({TaskId("a", 0)})):
            data = v3.encode_assignment(ExtensibleAssignment(target=target))
            assert v3.decode_assignment(data).target == target

    def test_equal_states_have_equal_bytes(self) -> None:
        forth = [TaskId(f"job-{i}", j) for i in range(40) for j in range(-1, 4)]
        assert PackedTasks.of(forth) == PackedTasks.of(reversed(forth)) == PackedTasks.of(frozenset(forth))
        spread = [TaskId(f"job-{i}", i) for i in range(40)]
        assert PackedTasks.of(spread) == PackedTasks.of(reversed(spread))

    def test_tasks_come_out_as_they_went_in(self) -> None:
        tasks = frozenset({planner_of("a"), TaskId("a", 3), TaskId("é", 0), TaskId("", 1)})
        packed = PackedTasks.of(tasks)
        assert packed.tasks() == tasks
        assert list(packed.in_order()) == sorted(tasks)
        assert (packed.jobs(), list(packed.indexes())) == (["", "a", "é"], [1, -1, 3, 0])
        assert len(packed) == 4


class TestRoundTrips:
    @unhurried
    @given(states)
    def test_metadata(self, state: ExtensibleState) -> None:
        assert v3.decode_metadata(v3.encode_metadata(state)) == state

    @unhurried
    @given(assignments)
    def test_assignment(self, assignment: ExtensibleAssignment) -> None:
        assert v3.decode_assignment(v3.encode_assignment(assignment)) == assignment

    @unhurried
    @given(st.frozensets(task_ids))
    def test_tasks(self, tasks: frozenset[TaskId]) -> None:
        assert PackedTasks.of(tasks).tasks() == tasks

    def test_how_far_each_learner_is(self) -> None:
        how_far = {TaskId("b", 1): 0.25, TaskId("a", 2): 1.0}
        learns, progress = learning(how_far)
        state = ExtensibleState(learning=learns, progress=progress)
        assert v3.decode_metadata(v3.encode_metadata(state)).how_far() == how_far
        assert replace(state, progress=()).how_far() == dict.fromkeys(how_far, 0.0)


class TestAccessors:
    """Google's runtime reads what we write, and we read what it writes."""

    @unhurried
    @given(states)
    def test_they_read_our_metadata(self, state: ExtensibleState) -> None:
        assert read_metadata(extensible_generated, v3.encode_metadata(state)) == state

    @unhurried
    @given(assignments)
    def test_they_read_our_assignment(self, assignment: ExtensibleAssignment) -> None:
        assert read_assignment(extensible_generated, v3.encode_assignment(assignment)) == assignment

    @unhurried
    @given(state=states, random=st.randoms(use_true_random=False))
    def test_we_read_their_metadata(self, state: ExtensibleState, random: Random) -> None:
        assert v3.decode_metadata(Writer(extensible_generated, random).metadata(state)) == state

    @unhurried
    @given(assignment=assignments, random=st.randoms(use_true_random=False))
    def test_we_read_their_assignment(self, assignment: ExtensibleAssignment, random: Random) -> None:
        assert v3.decode_assignment(Writer(extensible_generated, random).assignment(assignment)) == assignment


@unhurried
@given(states)
@example(ExtensibleState(learning=PackedTasks.of({TaskId("a", 0)}), progress=(0.5,)))
def test_each_number_lies_at_a_multiple_of_its_size(state: ExtensibleState) -> None:
    """Counted from where the flatbuffer begins. Python does not care; readers in other languages refuse the bytes."""
    table = extensible_generated.Metadata.GetRootAs(v3.encode_metadata(state)[2:], 0)._tab
    slots = list(v3.METADATA)
    assert table.Pos % 4 == 0
    for name, size in {"url": 4, "config_offset": 8, "slots": 4, "weight": 8, "epoch": 8}.items():
        assert (table.Pos + table.Offset(4 + 2 * slots.index(name))) % size == 0 or getattr(state, name) in (
            None,
            "",
            -1,
        )
    if progress := table.Offset(4 + 2 * slots.index("progress")):
        assert table.Vector(progress) % 8 == 0


class TestUnencodable:
    """A value that the format can't carry is our own caller's mistake, said before a byte is sent."""

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"version": 2}, "version 2 is not of this format"),
            ({"version": 2**15}, "version 32768"),
            ({"url": "é" * 2**14}, "url takes 32768 bytes"),
            ({"url": "\ud800"}, "url '.ud800' has no UTF-8 form"),
            ({"leaving": "x" * 2**15}, "leaving takes"),
            ({"config_offset": 2**63}, "config_offset 9223372036854775808 is not a number of 8 bytes"),
            ({"epoch": -1}, "epoch must be a number from 0 on, not -1"),
            ({"slots": -1}, "slots must be a number from 0 on, not -1"),
            ({"slots": 2**31}, "slots 2147483648 is not a number of 4 bytes"),
            ({"weight": float("nan")}, "weight must be a number from 0 on, not nan"),
            ({"weight": float("inf")}, "weight must be a number from 0 on, not inf"),
            ({"progress": (0.5,)}, "progress has 1 entries for 0 tasks"),
            ({"learning": PackedTasks.of({TaskId("a", 0)}), "progress": (1.5,)}, "progress must be from 0 to 1"),
            (
                {"ready": PackedTasks.of({TaskId("a", 0)})},
                "a task that is ready must also be in what the worker learns",
            ),
        ],
    )
    def test_metadata(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            v3.encode_metadata(replace(ExtensibleState(), **change))

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"error": 2**15}, "error 32768"),
            ({"leader": "x" * 2**15}, "leader takes"),
            ({"leader_url": "\udfff"}, "leader_url"),
            ({"delay_ms": 2**31}, "delay_ms 2147483648"),
            ({"delay_ms": -1}, "delay_ms must be a number from 0 on"),
            ({"epoch": 2**63}, "epoch"),
        ],
    )
    def test_assignment(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            v3.encode_assignment(replace(ExtensibleAssignment(), **change))

    @pytest.mark.parametrize(
        ("tasks", "complaint"),
        [
            ([TaskId("a", -2)], "task -2 of job 'a'; the lowest is -1"),
            ([TaskId("a", 0), TaskId("a", 2**31)], "task 2147483648 of job 'a', more than four bytes hold"),
            ([TaskId("a", 0), TaskId("b" * 2**15, 0)], "the name of a job takes 32768 bytes"),
            ([TaskId("\ud800", 0)], "the name of a job has no UTF-8 form"),
        ],
    )
    def test_tasks(self, tasks: list[TaskId], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            PackedTasks.of(tasks)

    def test_the_longest_texts_fit(self) -> None:
        longest = "é" + "x" * (2**15 - 3)
        state = ExtensibleState(url=longest, owned=PackedTasks.of({TaskId(longest, 0), TaskId(longest[:-1], 0)}))
        assert v3.decode_metadata(v3.encode_metadata(state)) == state


def test_bytes_say_of_which_version_they_are() -> None:
    assert codec_of_bytes(v3.encode_assignment(ExtensibleAssignment(version=3))) is v3
    for version in (4, 5, 2**15 - 1):  # a later one is read like the last one known
        assert codec_of_bytes(v4.encode_assignment(ExtensibleAssignment(version=version))) is v4
    for data in (b"\0\2", b"\xff\xff"):
        assert codec_of_bytes(data) not in (v3, v4)


def test_a_thousand_tasks_take_a_millisecond() -> None:
    many = frozenset(TaskId(f"job-{index % 50}", index // 50 - 1) for index in range(1_000))
    data = v3.encode_metadata(ExtensibleState(owned=PackedTasks.of(many)))

    def once(read: Callable[[bytes], object]) -> float:
        started = time.process_time()
        read(data)
        return time.process_time() - started

    assert v3.decode_metadata(data).owned.tasks() == many
    assert min(once(lambda data: v3.decode_metadata(data).owned.tasks()) for _ in range(5)) < 0.005
    assert min(once(v3.decode_metadata) for _ in range(5)) < 0.001  # no object for each
