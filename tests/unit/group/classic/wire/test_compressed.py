"""Version 4 of the embedded protocol: the values of version 3 in fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from extensible_messages import assignments, states, task_ids
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_provider.group.classic.wire import columns, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.values.model import HIGHEST_INDEX, ConfigOffset, Epoch, LocalProtocolError, TaskId, planner_of
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks
from airflow_provider.values.varints import varint

pytestmark = pytest.mark.usefixtures("nothing_kept")
from_hex = bytes.fromhex
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
rare_names = st.text("ab\x00\x1e\x1f\x20\x3f\n?é", max_size=5)
many_tasks = st.frozensets(
    task_ids | st.builds(TaskId, rare_names, st.integers(-1, HIGHEST_INDEX)), min_size=1, max_size=40
)


def packed(tasks: frozenset[TaskId]) -> bytes:
    return columns.pack(PackedTasks.of(tasks))


class TestBytes:
    @pytest.mark.parametrize(
        ("tasks", "expected"),
        [
            # No shared bytes and "a"; no more than one task; between its index and -2 there is one.
            ({TaskId("a", 0)}, "04 0061  02 00  04 01 80"),
            ({planner_of("a")}, "04 0061  02 00  02 00"),
            # A run from the planner on: no number between any two.
            ({TaskId("a", index) for index in range(-1, 3)}, "04 0061  04 02 c0  02 00"),
            # "ab" shares one byte with "a". Two tasks of one, one of the other; 1, 2 and 8 in four bits each.
            ({TaskId("a", 0), TaskId("a", 3), TaskId("ab", 7)}, "08 0061 0162  04 01 80  06 04 1280"),
            # A byte that could be a number of shared bytes.
            ({TaskId("\n", 0)}, "06 001f2a  02 00  04 01 80"),
        ],
    )
    def test_of_a_set(self, tasks: set[TaskId], expected: str) -> None:
        assert packed(frozenset(tasks)) == from_hex(expected)
        assert columns.unpack(from_hex(expected), columns.MOST).tasks() == tasks

    def test_of_a_message(self) -> None:
        state = ExtensibleState(version=4, url="u", owned=PackedTasks.of({TaskId("a", 0)}))
        data = v4.encode_metadata(state)
        size = data[2]
        assert data[:2] == from_hex("0004")
        head = columns.inflated(data[3 : 3 + size], 100, v4.DICTIONARY)
        assert head == v3.encode_metadata(ExtensibleState(url="u"))[2:]
        assert data[3 + size :] == from_hex("08") + packed(state.owned.tasks()) + bytes(3)

    def test_an_empty_target_is_not_an_absent_one(self) -> None:
        for target in (None, NOTHING, PackedTasks.of({TaskId("a", 0)})):
            data = v4.encode_assignment(ExtensibleAssignment(version=4, target=target))
            assert v4.decode_assignment(data).target == target

    @unhurried
    @given(many_tasks, st.randoms(use_true_random=False))
    def test_equal_sets_have_equal_bytes(self, tasks: frozenset[TaskId], random: Random) -> None:
        shuffled = random.sample(sorted(tasks), len(tasks))
        assert packed(tasks) == packed(frozenset(shuffled))

    def test_the_dictionary_is_what_it_was(self) -> None:
        """It is a part of the format: with another one, no release reads what another has written."""
        url = "http://localhost:8080/dags/spark_/runs/manual__/tasks/worker/mapped/"
        data = from_hex("00041ee36160606063e0606001d21c400ca25d8038039babf0b8029bd94063180000000000")
        assert len(data) < len(url)
        assert v4.decode_metadata(data) == ExtensibleState(version=4, url=url)


class TestRoundTrips:
    @unhurried
    @given(states)
    def test_metadata(self, state: ExtensibleState) -> None:
        state = replace(state, version=max(4, state.version))
        assert v4.decode_metadata(v4.encode_metadata(state)) == state

    @unhurried
    @given(assignments)
    def test_assignment(self, assignment: ExtensibleAssignment) -> None:
        assignment = replace(assignment, version=max(4, assignment.version))
        assert v4.decode_assignment(v4.encode_assignment(assignment)) == assignment

    @unhurried
    @given(many_tasks)
    @example(frozenset({TaskId("a" * 29, 0), TaskId("a" * 30, 0), TaskId("a" * 31, 0), TaskId("a" * 31 + "b", 0)}))
    @example(frozenset({TaskId("x" * 300, 0), TaskId("x" * 301, HIGHEST_INDEX), TaskId("x" * 301, -1)}))
    def test_tasks(self, tasks: frozenset[TaskId]) -> None:
        whole = PackedTasks.of(tasks)
        assert columns.unpack(columns.pack(whole), columns.takes(whole)) == whole

    @unhurried
    @given(st.integers(0, 2**35 - 1))
    def test_a_length(self, value: int) -> None:
        data = varint(value)
        assert columns.read_length(b"?" + data + b"?", 1) == (value, 1 + len(data))


def spread(digits: int, prefix: str) -> list[PackedTasks]:
    """1,000 workers, with the tasks of 1,000 jobs in random order: one of each of a hundred jobs or so."""
    tasks = [TaskId(f"{prefix}{job:0{digits}}", index) for job in range(1_000) for index in range(-1, 100)]
    Random(7).shuffle(tasks)
    return [PackedTasks.of(tasks[worker::1_000]) for worker in range(0, 1_000, 20)]


@pytest.mark.parametrize(("prefix", "at_most"), [("job-", 3), ("sales-orders-ingest-", 3.2)])
def test_a_task_takes_three_bytes_where_it_took_twenty_or_more(prefix: str, at_most: float) -> None:
    some = spread(5, prefix)
    tasks = sum(map(len, some))
    assert sum(tasks.size for tasks in some) / tasks > 18
    assert sum(len(columns.pack(tasks)) for tasks in some) / tasks < at_most


def test_a_run_of_tasks_takes_nearly_nothing() -> None:
    every_tenth = [TaskId("a", 10 * index) for index in range(100_000)]
    assert len(columns.pack(PackedTasks.of(TaskId("a", index) for index in range(-1, 100_000)))) < 20
    assert len(columns.pack(PackedTasks.of(every_tenth))) < 300


class TestUnencodable:
    """What version 3 refuses is refused here, too."""

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"version": 3}, "version 3 is not of this format, which begins with 4"),
            ({"version": 2**15}, "version 32768"),
            ({"url": "é" * 2**14}, "url takes 32768 bytes"),
            ({"epoch": -1}, "epoch must be a number from 0 on, not -1"),
            ({"progress": (0.5,)}, "progress has 1 entries for 0 tasks"),
            (
                {"ready": PackedTasks.of({TaskId("a", 0)})},
                "a task that is ready must also be in what the worker learns",
            ),
        ],
    )
    def test_metadata(self, change: dict[str, Any], complaint: str) -> None:
        with pytest.raises(LocalProtocolError, match=complaint):
            v4.encode_metadata(replace(ExtensibleState(version=4), **change))

    @pytest.mark.parametrize(
        ("tasks", "complaint"),
        [
            (PackedTasks(b"ba", b"\1\0\1\0", b"\1\0\0\0" * 2, bytes(8)), "not sorted by name"),
            (PackedTasks(b"aa", b"\1\0\1\0", b"\1\0\0\0" * 2, bytes(8)), "not sorted by name"),
            (PackedTasks(b"a", b"\1\0", b"\2\0\0\0", bytes(8)), "the tasks of a job are not sorted"),
            (PackedTasks(b"a", b"\1\0", bytes(4), b""), "or there are none"),
        ],
    )
    def test_what_is_not_sorted(self, tasks: PackedTasks, complaint: str) -> None:
        """Others may send such tasks in version 3, and what is sent in version 4 was read in version 4."""
        with pytest.raises(LocalProtocolError, match=complaint):
            columns.pack(tasks)

    def test_what_nobody_would_read(self) -> None:
        tasks = PackedTasks(b"a", b"\1\0", (2**20).to_bytes(4, "little"), bytes(2**22))
        with pytest.raises(LocalProtocolError, match=r"takes 16777\d+ bytes before it is packed, at most 16777216"):
            v4.encode_assignment(ExtensibleAssignment(version=4, target=tasks))


STATE = ExtensibleState(
    version=4,
    url="http://airflow.example/w1",
    config_offset=ConfigOffset(41),
    owned=PackedTasks.of({planner_of("flights"), TaskId("flights", 3), TaskId("orders", 1)}),
    learning=learning({TaskId("orders", 7): 0.5})[0],
    progress=(0.5,),
    epoch=Epoch(7),
)


@pytest.mark.parametrize(
    ("encode", "decode", "value"),
    [
        (v4.encode_metadata, v4.decode_metadata, STATE),
        (
            v4.encode_assignment,
            v4.decode_assignment,
            ExtensibleAssignment(version=4, target=STATE.owned, learning=STATE.learning, leader="w1"),
        ),
    ],
)
def test_further_sets_are_ignored(
    encode: Callable[[Any], bytes], decode: Callable[[bytes], object], value: object
) -> None:
    """A later release may have them, under the same version."""
    assert decode(encode(value) + from_hex("08") + packed(frozenset({TaskId("a", 0)}))) == value
