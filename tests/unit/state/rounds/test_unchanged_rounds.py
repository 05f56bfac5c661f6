"""A group that goes round for nothing slows down; one that changes never does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from group_records import record_of
from simulation.world import SETTINGS, World
from stand_ins import MemoryTopics

from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Policy
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import JoinedMember, PerformAssignment, RebalanceWanted
from airflow_provider.group.classic.wire import CODECS
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.group.classic.wire.v1 import encode_metadata
from airflow_provider.group.live.classic.leading import assign
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import ControlAction
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.unchanged_rounds import IN_A_ROW_MS, hold_back_ms
from airflow_provider.values.model import (
    NO_TASKS,
    Assignment,
    ConfigOffset,
    ConnectProtocol,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)
from airflow_provider.values.packed_tasks import PackedTasks

NEVER_MS = 10**9
TASKS = [TaskId("a", index) for index in range(4)]


def test_one_or_two_rounds_for_nothing_are_free_and_each_further_one_waits_twice_as_long() -> None:
    assert [hold_back_ms(unchanged, 60_000) for unchanged in range(7)] == [0, 0, 0, 100, 200, 400, 800]


@pytest.mark.parametrize(("session_ms", "longest_ms"), [(60_000, 5_000), (10_000, 2_500)])
def test_it_never_waits_so_long_that_the_others_take_their_assignment_for_lost(
    session_ms: int, longest_ms: int
) -> None:
    assert hold_back_ms(10_000, session_ms) == longest_ms


def a_leader_that_always_wants_another_round(world: World, *, after_ms: int = 50) -> None:
    world.configure(TASKS)
    world.start("w1")
    world.start("w2")
    world.run_until(lambda: world.settled)

    def again() -> None:
        leader = world.leader
        if leader is not None:
            leader.feed(RebalanceWanted(now_ms=leader.now, reason="no reason at all"))
        world.clock.after(after_ms, again)

    again()


def test_whatever_makes_a_group_go_round_it_slows_down() -> None:
    world = World(11)
    a_leader_that_always_wants_another_round(world)
    world.run(5_000)
    first = len(world.coordinator.rounds)
    world.run(20_000)
    later = len(world.coordinator.rounds) - first
    longest_ms = hold_back_ms(10_000, SETTINGS.session_timeout_ms)
    assert first < 15
    assert later <= 20_000 // longest_ms + 1
    assert [record.unchanged for record in world.records[-3:]] == list(
        range(unchanged(world) - 2, unchanged(world) + 1)
    )


def unchanged(world: World) -> int:
    """As the last record has it."""
    assert world.record is not None
    return world.record.unchanged


def test_a_newcomer_waits_for_one_round_at_most_and_what_it_changes_begins_the_count_anew() -> None:
    world = World(12)
    a_leader_that_always_wants_another_round(world)
    world.run(30_000)
    assert unchanged(world) > 3
    longest_ms = hold_back_ms(10_000, SETTINGS.session_timeout_ms)
    world.start("w3")
    world.run_until(lambda: bool(world.running("w3")), within_ms=longest_ms + 1_000)
    assert unchanged(world) == 0


def test_rounds_that_are_far_apart_are_not_in_a_row() -> None:
    world = World(14)
    a_leader_that_always_wants_another_round(world, after_ms=IN_A_ROW_MS + 1_000)
    before = len(world.coordinator.rounds)
    world.run_until(lambda: len(world.coordinator.rounds) == before + 3, within_ms=5 * IN_A_ROW_MS)
    assert unchanged(world) == 0


def test_a_round_that_only_begins_lessons_changes_something() -> None:
    world = World(
        13,
        settings=replace(SETTINGS, protocol=ConnectProtocol.EXTENSIBLE),
        stateful=frozenset({"a"}),
        warm_ms=(NEVER_MS, NEVER_MS),
    )
    a_leader_that_always_wants_another_round(world)
    world.run(30_000)
    assert unchanged(world) > 3
    assert world.leader is not None
    (leaver,) = {"w1", "w2"} - {str(world.leader.worker)}
    world.processes[leaver].asked.ask(ControlAction.LEAVE_SOON)
    world.run_until(lambda: bool(world.records[-1].lessons), within_ms=10_000)
    assert not world.records[-1].moves
    assert world.records[-1].unchanged == 0


@pytest.mark.parametrize("protocol", [SubProtocol.SESSIONED, SubProtocol.EXTENSIBLE])
@pytest.mark.parametrize("policy", [IMMEDIATE, Deferred()], ids=str)
def test_a_member_that_claims_everything_whatever_it_is_told_slows_down(protocol: SubProtocol, policy: Policy) -> None:
    group = ALiarsGroup(protocol, policy)
    group.run_until(60_000)
    assert group.rounds_since(20_000) <= 40_000 // hold_back_ms(10_000, SESSION_MS) + 4
    assert not group.started, "what somebody claims may run there: nobody else starts it"


def test_records_of_a_release_that_did_not_count_are_read() -> None:
    record = replace(record_of({}), unchanged=7)
    data = record.to_json()
    assert ClassicRecord.from_json(data).unchanged == 7
    del data["unchanged"]
    assert ClassicRecord.from_json(data).unchanged == 0


SESSION_MS = 60_000
LIAR = WorkerId("liar")


class ALiarsGroup:
    """Two workers that do as they are told, and one that says that it owns everything; who was told to stop something
    joins again immediately. All that is learned is ready in no time.

    :ivar started: what the two have started since the liar has come, in spite of it
    """

    def __init__(self, protocol: SubProtocol, policy: Policy) -> None:
        self.protocol, self.policy = protocol, policy
        self.codec = CODECS[protocol]
        self.shares = {WorkerId("w1"): frozenset(TASKS[:2]), WorkerId("w2"): frozenset(TASKS[2:]), LIAR: NO_TASKS}
        self.learning: Mapping[WorkerId, Tasks] = {}
        self.last: ClassicRecord | None = None
        self.now_ms = 0
        self.began_ms: list[int] = []
        self.started: Tasks = NO_TASKS

    def run_until(self, ms: int) -> None:
        while self.now_ms < ms:
            self.began_ms.append(self.now_ms)
            record = self.round()
            told = record.revoked.keys()
            self.now_ms += 20 + hold_back_ms(record.unchanged, SESSION_MS) + (0 if told else record.delay_ms)
            if not told and not record.delay_ms and not record.learning:
                return

    def rounds_since(self, ms: int) -> int:
        return sum(began >= ms for began in self.began_ms)

    def round(self) -> ClassicRecord:
        self.shares[LIAR] = frozenset(TASKS)
        generation = GenerationId(len(self.began_ms))
        record = lead(
            Call(
                generation=generation,
                protocol=self.protocol,
                leader=MemberId("w1"),
                last_completed=GenerationId(generation - 1),
                members=tuple(map(self.member, self.shares)),
                configured=frozenset(TASKS),
                config_offset=ConfigOffset(0),
                last_record=self.last,
                policy=self.policy,
                now_ms=self.now_ms,
                reason="it was told to stop something",
                stateful=frozenset({"a"}),
                revocation_rank=dict.fromkeys(TASKS, 2),
            )
        ).record
        assert record is not None
        for worker in self.shares.keys() - {LIAR}:
            self.started |= record.assignment[worker] - self.shares[worker]
            self.shares[worker] = record.assignment[worker]
        self.learning, self.last = record.learning, record
        return record

    def member(self, worker: WorkerId) -> JoinedMember:
        learning = PackedTasks.of(self.learning.get(worker, NO_TASKS))
        state: object
        if self.protocol is SubProtocol.EXTENSIBLE:
            state = ExtensibleState(owned=PackedTasks.of(self.shares[worker]), learning=learning, ready=learning)
        else:
            own = Assignment(version=2, assigned=self.shares[worker])
            state = WorkerState(version=2, url="", config_offset=ConfigOffset(-1), assignment=own)
        return JoinedMember(member_id=MemberId(worker), instance_id=worker, metadata=self.codec.encode_metadata(state))


W1 = WorkerId("w1")
ALONE = {W1: NO_TASKS}


@pytest.mark.parametrize(
    ("before", "last", "held_back_s"),
    [(ALONE, 1, 0), (ALONE, 2, 0.1), (ALONE, 4, 0.4), ({**ALONE, WorkerId("w2"): NO_TASKS}, 4, 0)],
    ids=["one or two are free", "the third", "the fifth", "somebody has left"],
)
async def test_a_leader_holds_the_assignment_back_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    before: Mapping[WorkerId, frozenset[TaskId]],
    last: int,
    held_back_s: float,
) -> None:
    """What the simulation plays, by a leader's own code."""
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    topics = MemoryTopics()
    await topics.publish_group(record_of(before, generation=GenerationId(7), unchanged=last, at_ms=wall_ms()))
    monkeypatch.setattr(asyncio, "sleep", wait)
    own = Assignment(version=1, assigned=NO_TASKS)
    state = WorkerState(version=1, url="", config_offset=ConfigOffset(0), assignment=own)
    command = PerformAssignment(
        seq=1,
        generation=GenerationId(8),
        protocol=SubProtocol.SESSIONED,
        leader=MemberId("w1"),
        last_completed=GenerationId(7),
        members=(JoinedMember(member_id=MemberId("w1"), instance_id=W1, metadata=encode_metadata(state)),),
        reason="no reason at all",
    )
    answer = await assign(command, topics, policy=Deferred(), settings=SETTINGS)
    assert answer.record is not None
    assert answer.record.unchanged == (last + 1 if len(before) == 1 else 0)
    assert waited == [held_back_s] * bool(held_back_s)
    said = f"{last + 1} rebalances in a row changed nothing (cause of the last one: no reason at all)"
    assert (said in caplog.text) == bool(held_back_s)
