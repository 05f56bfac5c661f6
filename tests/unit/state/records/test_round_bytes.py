"""The records of a large round are packed where all its workers read that, and mean what plain ones mean."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of

from airflow_provider.assignment.learners.model import LearnerMemory
from airflow_provider.assignment.model import Load, Memory, Move, MoveReason
from airflow_provider.state.records import (
    RebalanceEvent,
    UnreadableRecordError,
    WorkerPhase,
    WorkerStatus,
    decode,
    encode,
    event_from_json,
)
from airflow_provider.state.records.envelope import NEWEST_VERSION, PACKED_VERSION
from airflow_provider.state.records.round_bytes import PACKED_FROM, encoded_round, is_packed
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.values.model import (
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    planner_of,
)

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
A0, A1, A2, B0 = TaskId("a", 0), TaskId("a", 1), TaskId("a", 2), TaskId("b", 0)
ASSIGNED = {W1: frozenset({A0, planner_of("a")}), W2: frozenset({A1, B0})}
MOVE = Move(tasks=ASSIGNED[W2], source=W1, target=W2, reason=MoveReason.BALANCE, load=Load(3, 2))
MEMORY = Memory(
    generation=GenerationId(5),
    assignment={**ASSIGNED, W3: frozenset({A2})},
    revoked=frozenset({A2}),
    members=frozenset({W1, W2}),
    deadline_ms=900,
    released=(MOVE,),
    awaited={W3: 900},
    former={W1: frozenset({TaskId("old", 3)})},
)
CLASSIC = record_of(
    ASSIGNED,
    protocol=SubProtocol.EXTENSIBLE,
    revoked={W1: frozenset({A2})},
    moves=(MOVE,),
    delay_ms=900,
    learning={W2: frozenset({A0})},
    learned={W1: frozenset({A0})},
    lessons=(replace(MOVE, tasks=frozenset({A0}), load=None),),
    given_up={W2: frozenset({A2})},
    memory=MEMORY,
    learner_memory=LearnerMemory(
        cooperative=MEMORY,
        learned={W1: frozenset({A0})},
        learned_before={W1: frozenset({A1})},
        since_ms={W2: {A0: 7}},
        given_up={W2: frozenset({A2})},
    ),
)
QUIET = record_of(ASSIGNED, memory=replace(MEMORY, assignment=ASSIGNED))
"""Its memory does not repeat the assignment."""
DECLARATIVE = DeclarativeRecord(
    epoch=Epoch(7),
    leader=W1,
    config_offset=ConfigOffset(3),
    members={W1: MemberId("m1"), W2: MemberId("m2")},
    assignment=ASSIGNED,
    revoked={},
    moves=(MOVE,),
    delay_ms=0,
    reason="w2 joined",
    at_ms=1_000,
    waits={W3: frozenset({A2})},
)
RECORDS: list[GroupRecord] = [CLASSIC, QUIET, DECLARATIVE]


def packed(record: GroupRecord) -> dict[str, Any]:
    return decode(encoded_round(record, packed=True).status)


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("is_so", [False, True], ids=["plain", "packed"])
def test_a_round_is_read_again(record: GroupRecord, is_so: bool) -> None:
    encoded = encoded_round(record, packed=is_so)
    assert group_record_from_json(decode(encoded.status)) == record
    event = event_from_json(decode(encoded.event))
    assert event == event_from_json(decode(encode(RebalanceEvent.of(record).to_json())))
    assert isinstance(event, RebalanceEvent)
    assert (event.record.assignment, event.record.moves) == (record.assignment, record.moves)


def test_a_packed_round_has_all_that_a_plain_one_has_and_its_own_version() -> None:
    plain = decode(encoded_round(CLASSIC, packed=False).status)
    together = packed(CLASSIC)
    assert (plain["v"], together["v"]) == (1, PACKED_VERSION)
    assert together.keys() - plain.keys() == {"tasks"}
    assert together["assignment"] == {"w1": 0, "w2": 1}
    assert together["moves"] == [
        {"tasks": 1, "source": "w1", "target": "w2", "reason": "balance", "load": [3, 2]},
    ]
    same = plain.keys() - {"v", "assignment", "revoked", "moves", "learning", "learned", "lessons", "memory"}
    for name in same - {"learner_memory"}:
        assert together[name] == plain[name]
    event = decode(encoded_round(CLASSIC, packed=True).event)
    assert (event["v"], event["type"], "memory" in event) == (PACKED_VERSION, "rebalance", False)


def test_the_bytes_of_a_packed_round_stay_as_they_are() -> None:
    """Other releases read them."""
    assert encoded_round(record_of(ASSIGNED, moves=(MOVE,)), packed=True).status == (
        b'{"assignment":{"w1":0,"w2":1},"at_ms":0,"config_offset":0,"deadline_ms":0,"delay_ms":0,"epoch":5,'
        b'"generation":5,"leader":"w1","leader_member":"m1","learned":{},"learner_memory":null,"learning":{},"leaving":[],'
        b'"lessons":[],"lost":[],"members":{"w1":"w1","w2":"w2"},"memory":{"assignment":{},"awaited":{},"candidates":[],'
        b'"deadline_ms":0,"former":{},"generation":-1,"members":[],"next_moves_at_ms":0,"released":[],"revoked":2,'
        b'"revoked_in_previous":false,"successive_revocations":0},'
        b'"moves":[{"load":[3,2],"reason":"balance","source":"w1","target":"w2","tasks":1}],"policy":null,'
        b'"protocol":"sessioned","reason":"","revoked":{},"step":"",'
        b'"tasks":{"jobs":{"a":[0,3,4],"b":[4]},"sets":3},"unchanged":0,"v":2}'
    )


def spread(workers: int, jobs: int) -> dict[WorkerId, Tasks]:
    """Each worker has a task of each job."""
    return {
        WorkerId(f"worker-{number:04}"): frozenset(TaskId(f"job-{job:05}", number) for job in range(jobs))
        for number in range(workers)
    }


def test_a_large_round_takes_a_fifth_of_the_bytes() -> None:
    assignment = spread(50, 100)
    moves = tuple(
        Move(tasks=frozenset(set(tasks)), source=None, target=worker, reason=MoveReason.NEW)
        for worker, tasks in assignment.items()
    )
    record = record_of(assignment, moves=moves, memory=Memory(assignment=assignment, members=frozenset(assignment)))
    plain, together = (encoded_round(record, packed=is_so) for is_so in (False, True))
    assert 5 * len(together.status) < len(plain.status)
    assert 5 * len(together.event) < len(plain.event)


def said(worker: WorkerId, *, reads: int = NEWEST_VERSION) -> WorkerStatus:
    return WorkerStatus(worker=worker, state=WorkerPhase.STABLE, epoch=Epoch(5), slots=2, reads=reads)


def test_a_round_is_packed_only_if_all_its_workers_say_that_they_read_it() -> None:
    record = record_of(spread(2, PACKED_FROM // 2))
    one, other = record.members
    assert is_packed(record, {one: said(one), other: said(other)})
    assert is_packed(record, {one: said(one), other: said(other, reads=NEWEST_VERSION + 1)})
    assert not is_packed(record, {one: said(one), other: said(other, reads=1)}), "it has an older release"
    assert not is_packed(record, {one: said(one)}), "it has not said anything yet"
    assert is_packed(record, {one: said(one), other: said(other), W1: said(W1, reads=1)}), "it is not in the round"


def test_a_small_round_is_plain() -> None:
    record = record_of(spread(2, PACKED_FROM // 2 - 1))
    assert not is_packed(record, {worker: said(worker) for worker in record.members})


def test_a_worker_of_an_older_release_reads_plain_rounds() -> None:
    written = said(W1).to_json()
    assert WorkerStatus.from_json(written).reads == NEWEST_VERSION
    del written["reads"]
    assert WorkerStatus.from_json(written).reads == 1
    assert "reads" not in said(W1, reads=1).to_json()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inner:
        yield (*path, name)
        yield from places(part, (*path, name))


@pytest.mark.parametrize("lie", [None, -1, 0, 1, 2, 7, 2**31, 2**53, 2**64 - 1, True, 1.5, "7", [], [1], {}])
def test_whatever_is_in_a_packed_round_it_is_refused_or_means_something_that_can_be_written(lie: Any) -> None:
    truth = packed(CLASSIC)
    for path in places(truth):
        damaged = copy.deepcopy(truth)
        inner = damaged
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = lie
        try:
            record = group_record_from_json(decode(json.dumps(damaged).encode()))
        except ValueError:
            continue
        written = encoded_round(record, packed=False)
        assert encoded_round(group_record_from_json(decode(written.status)), packed=False) == written, path


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_packed_round_that_was_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(UnreadableRecordError, match="not JSON"):
        decode(encoded_round(CLASSIC, packed=True).status[:-cut])
