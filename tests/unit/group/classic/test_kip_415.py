"""The worked examples of KIP-415, round by round, through member machines, assignor and a model of the coordinator.

The notation is the KIP's: ``AC0`` is the connector instance (here: planner) of A, ``AT1`` its task 1; W1, W2, W3 are
workers. ``assigned`` is, as in the KIP, all that a worker has after the round. A worker leaves by LeaveGroup or by
dying; it bounces when it comes back under its name, by which the KIP's leader does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from embedded_bytes import decode_assignment, decode_metadata
from simulation.group import RoundSeen
from simulation.world import World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.values.model import ConnectProtocol, SubProtocol, TaskId, Tasks, planner_of

ALL = "AC0 AT1 AT2 BC0 BT1"
D = 300_000
"""scheduled.rebalance.max.delay.ms: the KIP's d."""


class Sent(NamedTuple):
    """What the leader sends to a worker."""

    delay: int
    assigned: str
    revoked: str = ""


@dataclass(frozen=True, kw_only=True)
class Round:
    """A rebalance: what each worker joins with (None: it says nothing of tasks), who leads, what the leader sends."""

    joins: Mapping[str, str | None]
    leader: str
    sends: Mapping[str, Sent]


def tasks(names: str) -> Tasks:
    return frozenset(
        planner_of(name[0]) if name[1] == "C" else TaskId(name[0], int(name[2:])) for name in names.split()
    )


def names(some: Tasks) -> str:
    return " ".join(sorted(f"{task.job}C0" if task.is_planner else f"{task.job}T{task.index}" for task in some))


class Kip:
    """A group in a network without latency, so that delays come out to the millisecond."""

    def __init__(self, *, configured: str = ALL) -> None:
        self.world = World(policy=Deferred(max_delay_ms=D), stop_ms=(100, 100), named=False)
        self.world.network.faults.latency_ms = (0, 0)
        self.world.configure(tasks(configured))
        self._seen = 0

    def initial_group(self, *workers: str, **changes: Any) -> None:
        """W1 leads; the others join while W1's first rebalance with them is still active."""
        for worker in workers:
            self.world.start(worker, **changes)
            self.world.run(5)
        self.world.run(10_000)
        assert self.world.settled
        self.forget_rounds()

    def last_spoken(self) -> SubProtocol:
        """What the last round was in."""
        return self.world.coordinator.rounds[-1].protocol

    def has(self, worker: str) -> str:
        return names(self.world.running(worker))

    def assignment(self) -> Mapping[str, str]:
        return {worker: self.has(worker) for worker in sorted(self.world.live)}

    def next_round(self, *, within_ms: int = 20_000) -> Round:
        """Wait for the next rebalance to complete."""
        rounds = self.world.coordinator.rounds
        self.world.run_until(lambda: len(rounds) > self._seen, within_ms=within_ms)
        self.world.run(1)
        self._seen += 1
        return _as_kip(rounds[self._seen - 1])

    def forget_rounds(self) -> None:
        """Go on from here."""
        self._seen = len(self.world.coordinator.rounds)

    def no_more_rounds(self, *, for_ms: int = 2 * D) -> None:
        self.world.run(for_ms)
        assert len(self.world.coordinator.rounds) == self._seen, self.world.story()


def _as_kip(seen: RoundSeen) -> Round:
    joins: dict[str, str | None] = {}
    sends: dict[str, Sent] = {}
    for worker in sorted(seen.joined):
        metadata, assignment = decode_metadata(seen.joined[worker]), decode_assignment(seen.sent[worker])
        joins[worker] = names(metadata.owned) if metadata.assignment is not None else None
        kept = metadata.owned - assignment.revoked
        sends[worker] = Sent(assignment.delay_ms, names(kept | assignment.assigned), names(assignment.revoked))
    return Round(joins=joins, leader=seen.leader, sends=sends)


@pytest.fixture
def kip() -> Kip:
    return Kip()


def test_first_new_member_joins(kip: Kip) -> None:
    kip.world.start("W1")

    assert kip.next_round() == Round(joins={"W1": None}, leader="W1", sends={"W1": Sent(0, ALL)})
    assert kip.assignment() == {"W1": ALL}
    kip.no_more_rounds()


def test_non_first_new_member_joins(kip: Kip) -> None:
    kip.initial_group("W1")
    kip.world.start("W2")
    kip.world.start("W3")

    assert kip.next_round() == Round(
        joins={"W1": ALL, "W2": None, "W3": None},
        leader="W1",
        sends={"W1": Sent(0, "AC0 AT1", revoked="AT2 BC0 BT1"), "W2": Sent(0, ""), "W3": Sent(0, "")},
    )
    kip.world.run(90)
    assert kip.has("W1") == ALL, "revoked resources stop, the others run on"
    assert kip.next_round() == Round(
        joins={"W1": "AC0 AT1", "W2": "", "W3": ""},
        leader="W1",
        sends={"W1": Sent(0, "AC0 AT1"), "W2": Sent(0, "AT2 BC0"), "W3": Sent(0, "BT1")},
    )
    assert kip.assignment() == {"W1": "AC0 AT1", "W2": "AT2 BC0", "W3": "BT1"}
    kip.no_more_rounds()


@pytest.mark.parametrize("way", ["leaves", "dies"])
def test_worker_leaves(kip: Kip, way: str) -> None:
    kip.initial_group("W1", "W2", "W3")
    kip.world.leave("W2") if way == "leaves" else kip.world.kill("W2")

    assert kip.next_round() == Round(
        joins={"W1": "AC0 AT1", "W3": "BT1"},
        leader="W1",
        sends={"W1": Sent(D, "AC0 AT1"), "W3": Sent(D, "BT1")},
    )
    assert kip.next_round(within_ms=D + 1) == Round(
        joins={"W1": "AC0 AT1", "W3": "BT1"},
        leader="W1",
        sends={"W1": Sent(0, "AC0 AT1"), "W3": Sent(0, "AT2 BC0 BT1")},
    ), "the KIP gives BC0 to W1; like Connect we share planners and tasks out apart: one planner for each"
    kip.no_more_rounds()


def test_worker_bounces(kip: Kip) -> None:
    kip.initial_group("W1", "W2", "W3")
    kip.world.leave("W2")

    assert kip.next_round() == Round(
        joins={"W1": "AC0 AT1", "W3": "BT1"},
        leader="W1",
        sends={"W1": Sent(D, "AC0 AT1"), "W3": Sent(D, "BT1")},
    )
    left_at = kip.world.clock.now
    kip.world.run(100_000)
    kip.world.start("W2")
    with_w2 = kip.next_round()
    d1 = with_w2.sends["W1"].delay
    assert with_w2 == Round(
        joins={"W1": "AC0 AT1", "W2": None, "W3": "BT1"},
        leader="W1",
        sends={"W1": Sent(d1, "AC0 AT1"), "W2": Sent(d1, ""), "W3": Sent(d1, "BT1")},
    )
    assert d1 == D - (kip.world.clock.now - left_at), "d' is the remaining delay"
    assert kip.next_round(within_ms=d1 + 1) == Round(
        joins={"W1": "AC0 AT1", "W2": "", "W3": "BT1"},
        leader="W1",
        sends={"W1": Sent(0, "AC0 AT1"), "W2": Sent(0, "AT2 BC0"), "W3": Sent(0, "BT1")},
    )
    kip.no_more_rounds()


def test_leader_leaves_and_its_successor_knows_nothing() -> None:
    """The KIP's leader has no memory but its own: its successor can't tell lost work from new."""
    kip = Kip()
    kip.initial_group("W1", "W2", "W3", forgetful=True)
    kip.world.leave("W1")

    round_ = kip.next_round()
    assert round_.joins == {"W2": "AT2 BC0", "W3": "BT1"}
    assert round_.leader in ("W2", "W3")
    assert round_.sends == {"W2": Sent(0, "AT2 BC0"), "W3": Sent(0, "AC0 AT1 BT1")}
    kip.no_more_rounds()


def test_leader_leaves_and_its_memory_stays(kip: Kip) -> None:
    """Where we do better: the group record carries the memory on, so the loss of the leader is like any worker's."""
    kip.initial_group("W1", "W2", "W3")
    kip.world.leave("W1")

    round_ = kip.next_round()
    assert round_.joins == {"W2": "AT2 BC0", "W3": "BT1"}
    assert round_.leader in ("W2", "W3")
    assert round_.sends == {"W2": Sent(D, "AT2 BC0"), "W3": Sent(D, "BT1")}
    kip.world.run(1_000)
    kip.world.start("W1")
    d1 = kip.next_round().sends["W1"].delay
    assert kip.next_round(within_ms=d1 + 1).sends == {
        "W1": Sent(0, "AC0 AT1"),
        "W2": Sent(0, "AT2 BC0"),
        "W3": Sent(0, "BT1"),
    }
    kip.no_more_rounds()


def test_leader_bounces(kip: Kip) -> None:
    kip.initial_group("W1", "W2", "W3")
    kip.world.leave("W2")
    assert kip.next_round().sends == {"W1": Sent(D, "AC0 AT1"), "W3": Sent(D, "BT1")}
    began = kip.world.clock.now

    kip.world.run(50_000)
    kip.world.start("W2")
    round_ = kip.next_round()
    d1 = D - (kip.world.clock.now - began)
    assert round_.leader == "W1"
    assert round_.sends == {"W1": Sent(d1, "AC0 AT1"), "W2": Sent(d1, ""), "W3": Sent(d1, "BT1")}

    kip.world.run(50_000)
    kip.world.leave("W1")
    round_ = kip.next_round()
    d2 = D - (kip.world.clock.now - began)
    new_leader = round_.leader
    assert round_ == Round(
        joins={"W2": "", "W3": "BT1"}, leader=new_leader, sends={"W2": Sent(d2, ""), "W3": Sent(d2, "BT1")}
    ), "there is an active delay in progress, and the new leader abides by it"

    kip.world.run(50_000)
    kip.world.start("W1")
    round_ = kip.next_round()
    d3 = D - (kip.world.clock.now - began)
    assert round_ == Round(
        joins={"W1": None, "W2": "", "W3": "BT1"},
        leader=new_leader,
        sends={"W1": Sent(d3, ""), "W2": Sent(d3, ""), "W3": Sent(d3, "BT1")},
    )
    assert kip.next_round(within_ms=d3 + 1) == Round(
        joins={"W1": "", "W2": "", "W3": "BT1"},
        leader=new_leader,
        sends={"W1": Sent(0, "AC0 AT1"), "W2": Sent(0, "AT2 BC0"), "W3": Sent(0, "BT1")},
    ), "the KIP can't promise it, but with the memory in the group record all get their own back"
    kip.no_more_rounds()


def test_rolling_upgrade_from_eager_and_downgrade_back(kip: Kip) -> None:
    world = kip.world
    kip.initial_group("W1", "W2", "W3", protocol=ConnectProtocol.EAGER)
    assert kip.last_spoken() is SubProtocol.DEFAULT

    for worker in ("W1", "W2", "W3"):
        assert kip.last_spoken() is SubProtocol.DEFAULT, "as long as one worker offers nothing else"
        world.leave(worker)
        world.run(10_000)
        world.start(worker, protocol=ConnectProtocol.COMPATIBLE)
        world.run(10_000)
        assert world.settled, world.story()
    assert kip.last_spoken() is SubProtocol.COMPATIBLE
    kip.forget_rounds()
    kip.no_more_rounds()

    world.leave("W3")
    without_w3 = kip.next_round()
    assert {worker: sent.delay for worker, sent in without_w3.sends.items()} == {"W1": D, "W2": D}
    world.start("W3", protocol=ConnectProtocol.EAGER)
    first, second = kip.next_round(), kip.next_round()
    assert first.sends == {"W1": Sent(0, ""), "W2": Sent(0, ""), "W3": Sent(0, "")}, (
        "who joined with its tasks running stops them now; nobody is given any"
    )
    assert second.joins == {"W1": None, "W2": None, "W3": None}
    assert [seen.protocol for seen in world.coordinator.rounds[-2:]] == [SubProtocol.DEFAULT] * 2
    assert tasks(" ".join(sent.assigned for sent in second.sends.values())) == tasks(ALL)
    assert world.settled
    kip.no_more_rounds()


def test_downgrade_in_which_a_worker_misses_the_empty_assignment(kip: Kip) -> None:
    """The KIP does not look at this: in the next round all is dealt out, so nobody may come into it with tasks running.
    The world watches that nothing is started while it runs elsewhere.
    """
    world = kip.world
    kip.initial_group("W1", "W2", "W3", protocol=ConnectProtocol.COMPATIBLE)
    cut_off = next(process for name, process in world.processes.items() if name not in (world.coordinator.leader, "W3"))
    assert cut_off.running
    world.leave("W3")
    world.run(1_000)
    world.start("W3", protocol=ConnectProtocol.EAGER)
    world.run_until(lambda: cut_off.state.phase is Phase.COMPLETING_REBALANCE)
    cut_off.cut()
    world.run(30)
    cut_off.reconnect()
    world.run(60_000)
    assert world.settled, world.story()
