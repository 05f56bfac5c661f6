"""A shard whose groups may have classic workers, too: who is answered when, and what their bridges hear."""

from __future__ import annotations

import pytest
from coordinated import GROUP, heartbeat, whole
from shard_log import Bridges, MemoryLog, raw
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.events import BridgeAsks, BridgeLost, BridgeSaid, ToBridge
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    InstalledMember,
)
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving
from airflow_provider.group.declarative.server.shard import Shard
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, Epoch, MemberId, TaskId, Tasks

SETTINGS = CoordinatorSettings(migration=MigrationPolicy.BIDIRECTIONAL)
W1 = MemberId("w1")
A0, A1 = TaskId("a", 0), TaskId("a", 1)
CHOSEN = (KafkaErrorCode.COMPUTE_ASSIGNMENT, 0)


class Bridged:
    """A shard that is served.

    :ivar now: milliseconds
    """

    def __init__(self, log: MemoryLog) -> None:
        self.now = 1_000
        self.log = log
        self.bridges = Bridges()
        machine = Coordinator(SETTINGS)
        self.looked: list[str] = []
        self.crossing = Crossing(machine, self.bridges, lambda _: None)
        self.serving = Serving(
            0,
            Layout(shards=1, replies=2),
            machine,
            log,
            held=Held(),
            faulty=Faulty(),
            oversized=Oversized(),
            now_ms=lambda: self.now,
            look=self.looked.append,
            crossing=self.crossing,
        )
        self.serving.load()

    def ask(self, number: int, epoch: int, owned: Tasks = NO_TASKS) -> None:
        body = heartbeat(W1, epoch, owned, **whole())
        self.serving.handle([raw(number, body=body)], {})

    def say(self, epoch: int, tasks: Tasks, lease_ms: int = 60_000) -> None:
        word = BridgeSaid(now_ms=0, group_id=GROUP, epoch=Epoch(epoch), tasks=tasks, lease_until_ms=self.now + lease_ms)
        self.serving.handle([], {}, (), [word])

    def give(self, tasks: Tasks) -> None:
        """The bridge gives these tasks, and W1 gets them: it joins, computes the target, and comes to it."""
        self.ask(1, 0)
        self.say(4, tasks)
        self.compute(2, MemberEpoch(0), GroupEpoch(4), tasks)
        self.ask(4, 0)
        assert self.log.answers[4] == (0, 4)

    def compute(self, number: int, epoch: MemberEpoch, group_epoch: GroupEpoch, tasks: Tasks) -> None:
        """W1 computes a target in which it has these tasks.

        :param number: of the first of two requests
        """
        share = InstalledMember(member_id=W1, connectors_and_tasks=units_of(tasks))
        asks = ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id=W1, member_epoch=epoch)
        installs = ConnectGroupInstallAssignmentRequest(
            group_id=GROUP, member_id=W1, member_epoch=epoch, group_epoch=group_epoch, members=(share,)
        )
        self.serving.handle([raw(number, body=asks)], {})
        self.serving.handle([raw(number + 1, body=installs)], {})

    def lose(self, why: str = "") -> None:
        self.serving.handle([], {}, (), [BridgeLost(now_ms=0, group_id=GROUP, why=why)])


@pytest.fixture
def shard() -> Bridged:
    return Bridged(MemoryLog())


def test_nobody_is_answered_before_the_bridge_is_in_the_classic_group(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.ask(2, 0)
    assert shard.bridges.opened == [(GROUP, NO_TASKS)]
    assert shard.log.answers == {}
    shard.say(4, frozenset({A0}))
    assert shard.log.answers == {1: CHOSEN, 2: CHOSEN}
    assert shard.bridges.told[-1] == ToBridge(members=1, wants_epoch=False, free=NO_TASKS)


def test_who_keeps_the_bridge_out_is_said_to_those_who_wait(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.lose("it may not join")
    assert shard.log.answers == {1: (KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, 0)}
    shard.ask(2, 0)
    assert len(shard.bridges.opened) == 2


def test_a_bridge_that_has_left_comes_again_for_who_came_meanwhile(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.lose()
    assert shard.bridges.opened == [(GROUP, NO_TASKS)] * 2
    assert shard.log.answers == {}


def test_nobody_is_answered_when_the_lease_of_the_bridge_is_nearly_over(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.say(4, frozenset({A0}), lease_ms=5_000)
    assert shard.log.answers == {1: CHOSEN}
    shard.now += 4_500
    shard.ask(2, 0)
    assert shard.log.answers.keys() == {1}
    shard.say(4, frozenset({A0}))
    assert shard.log.answers.keys() == {1, 2}


def test_who_leaves_need_not_wait(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.say(4, frozenset({A0}))
    shard.lose()
    shard.serving.handle([raw(2, body=heartbeat(W1, -1))], {})
    assert 2 in shard.log.answers


def test_who_joins_a_group_that_all_have_left_is_let_in_by_the_bridge_that_is_still_there(shard: Bridged) -> None:
    shard.ask(1, 0)
    shard.say(4, frozenset({A0}))
    shard.serving.handle([raw(2, body=heartbeat(W1, -1))], {})
    shard.ask(3, 0)
    assert 3 in shard.log.answers
    assert not shard.looked, "whoever looks finds the bridge"


def test_the_bridge_hears_of_what_is_committed(shard: Bridged) -> None:
    shard.give(frozenset({A0, A1}))
    shard.bridges.asked = BridgeAsks(frozenset({A1}), 1)
    shard.say(5, frozenset({A0}))
    assert shard.bridges.told[-1].free == NO_TASKS
    shard.compute(5, MemberEpoch(4), GroupEpoch(5), frozenset({A0}))
    shard.ask(7, 4, frozenset({A0, A1}))
    assert shard.bridges.told[-1].free == NO_TASKS
    shard.ask(8, 4, frozenset({A0}))
    assert shard.bridges.told[-1].free == {A1}
    told = len(shard.bridges.told)
    shard.ask(9, 5, frozenset({A0}))
    assert len(shard.bridges.told) == told


def test_the_next_one_to_serve_it_takes_the_bridges_over(shard: Bridged) -> None:
    shard.give(frozenset({A0}))
    shard.crossing.close()
    assert shard.bridges.closed == [GROUP]
    successor = Bridged(shard.log)
    assert successor.bridges.opened == [(GROUP, frozenset({A0}))]


@pytest.mark.slow
def test_what_the_bridges_of_before_have_said_does_not_count_after_a_fault() -> None:
    """They are closed: whether the next ones are in their classic groups, and with what, those have to say."""
    log, bridges = MemoryLog(), Bridges()
    shard = Shard(
        0,
        Layout(shards=1, replies=2),
        machine=lambda: Coordinator(SETTINGS),
        open_log=lambda: log,
        now_ms=lambda: 1_000,
        when_loaded=lambda: None,
        when_fenced=lambda: None,
        when_starved=lambda _: None,
        when_groups_change=lambda _: None,
        bridges=bridges,
    )
    shard.start()
    shard.inbox.put([raw(1, body=heartbeat(W1, 0, (), **whole()))])
    wait_until(lambda: len(bridges.opened) == 1)
    log.errors = [ShardError("the broker is away")]
    shard.inbox.put_word(
        BridgeSaid(now_ms=0, group_id=GROUP, epoch=Epoch(4), tasks=frozenset({A0}), lease_until_ms=60_000)
    )
    wait_until(lambda: 1 in log.answers)
    shard.inbox.put([raw(2, body=heartbeat(W1, 0, (), **whole()))])
    wait_until(lambda: len(bridges.opened) == 2 or 2 in log.answers)
    shard.end()
    assert shard.join(DEADLINE_S)
    assert len(bridges.opened) == 2
    assert log.answers[2] == (KafkaErrorCode.NOT_COORDINATOR, 0)


def test_a_bridge_that_ends_late_is_not_heard() -> None:
    heard: list[BridgeWord] = []
    bridges = Bridges()
    crossing = Crossing(Coordinator(SETTINGS), bridges, heard.append)
    crossing.open(GROUP)
    lost = BridgeLost(now_ms=0, group_id=GROUP)
    bridges.put(lost)
    crossing.close()
    bridges.put(lost)
    assert heard == [lost]


def test_who_waits_for_the_bridge_keeps_it_from_leaving(shard: Bridged) -> None:
    shard.ask(1, 0)
    assert [answer.members for answer in shard.bridges.told] == [1]
    shard.say(4, frozenset({A0}))
    shard.serving.handle([raw(2, body=heartbeat(W1, -1))], {})
    assert shard.bridges.told[-1].members == 0
    shard.lose("it is away")
    shard.ask(3, 0)
    assert shard.bridges.told[-1].members == 1


def test_a_bridge_that_was_lost_hears_what_it_need_not_wait_for(shard: Bridged) -> None:
    shard.give(frozenset({A0}))
    shard.bridges.asked = BridgeAsks(frozenset({A0}), 1)
    shard.lose()
    assert shard.bridges.told[-1] == ToBridge(members=1, wants_epoch=False, free=NO_TASKS)
    shard.now += 100_000
    shard.serving.fire()
    assert shard.bridges.told[-1].free == {A0}
