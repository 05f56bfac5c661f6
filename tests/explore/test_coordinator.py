"""The coordinator of the exploration answers like the simulation's, to any requests at any time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from explore import coordinator
from explore.group import Group
from explore.normal import Nodes
from explore.rebalance import Taken
from explore.values import AWAITED, NOW, SETTINGS, TICK, Flight, Frozen, Join, Sync, Way
from simulation.clock import Clock
from simulation.coordinator import Coordinator
from simulation.group import JoinReply, JoinRequest, SyncReply

from airflow_provider.group.classic.member.events import (
    HeartbeatAnswered,
    Joined,
    RequestRejected,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Synced,
)
from airflow_provider.group.machine.events import Event
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol

SEEDS = 20
STEPS = 1_000
WORKERS = ("w1", "w2")
PROTOCOL = SubProtocol.COMPATIBLE
Answer = tuple[Any, ...]


class Both:
    """The two coordinators with the same requests. Each request has a mark of its own as its sender."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.theirs = Coordinator(self.clock, random.Random(seed))
        self.ours = Group()
        self.nodes = Nodes()
        self.their_answers: list[tuple[str, Answer]] = []
        self.our_answers: list[tuple[str, Answer]] = []
        self.ids = {worker: [MemberId("")] for worker in WORKERS}
        self.asked = 0
        self.tie = False

    def step(self) -> None:
        worker = self.rng.choice(WORKERS)
        self.asked += 1
        act = self.rng.choice((self.join, self.join, self.sync, self.sync, self.heartbeat, self.leave, self.wait))
        act(worker, worker + "'" * self.asked)
        if self.tie:
            return
        assert sorted(self.our_answers) == sorted(self.their_answers)
        self._learn()
        assert self.ours.state.value == self.theirs.state.value
        assert self.ours.generation == self.theirs.generation
        assert {member.worker for member in self.ours.members} == self.theirs.members
        leader = self.ours.with_id(self.ours.leader)
        assert (leader and leader.worker) == self.theirs.leader

    def _learn(self) -> None:
        for mark, answer in self.our_answers:
            if answer[0] == "joined":
                self.ids[mark.rstrip("'")].append(answer[1])
        self.our_answers.clear()
        self.their_answers.clear()

    def _id(self, worker: str) -> MemberId:
        """Mostly the worker's own id, sometimes none or an old one."""
        known = self.ours.static(worker)
        own = known.member_id if known is not None else MemberId("")
        return self.rng.choice((own, own, own, own, own, MemberId(""), self.rng.choice(self.ids[worker])))

    def _generation(self) -> GenerationId:
        return GenerationId(self.ours.generation - (self.rng.random() < 0.1))

    def _take(self, mark: str, what: Any, fresh: str = "") -> None:
        taken = coordinator.take(self.ours, Flight(Way.REQUEST, mark, AWAITED, what, sent_at=NOW), MemberId(fresh))
        self._taken(taken)

    def _taken(self, taken: Taken) -> None:
        self.ours = taken.group
        self.our_answers += [(flight.mark, _answer(flight.what)) for flight in taken.answers]

    # ---- requests

    def join(self, worker: str, mark: str) -> None:
        member_id, metadata = self._id(worker), self.rng.choice((b"one", b"two"))
        protocols = ((PROTOCOL.value, metadata),)
        request = JoinRequest(
            member_id=member_id,
            instance_id=worker,
            protocols=protocols,
            session_timeout_ms=SETTINGS.session_timeout_ms,
            rebalance_timeout_ms=SETTINGS.rebalance_timeout_ms,
        )
        fresh = f"{worker}-{self.theirs._ids + 1:04d}"
        self.theirs.join(request, lambda reply: self.their_answers.append((mark, _join_answer(reply))))
        self._take(mark, Join(SendJoin(seq=1, node=1, member_id=member_id, protocols=protocols, reason="")), fresh)

    def sync(self, worker: str, mark: str) -> None:
        member_id, generation = self._id(worker), self._generation()
        assignments = {member.member_id: f"for {member.worker}".encode() for member in self.ours.members}
        self.theirs.sync(
            member_id,
            worker,
            generation,
            PROTOCOL.value,
            assignments,
            lambda reply: self.their_answers.append((mark, _sync_answer(reply))),
        )
        command = SendSync(
            seq=1,
            node=1,
            member_id=member_id,
            generation=generation,
            protocol=PROTOCOL,
            assignments=Frozen(assignments),
        )
        self._take(mark, Sync(command))

    def heartbeat(self, worker: str, mark: str) -> None:
        member_id, generation = self._id(worker), self._generation()
        self.their_answers.append((mark, ("beat", self.theirs.heartbeat(member_id, worker, generation))))
        self._take(mark, SendHeartbeat(seq=1, node=1, member_id=member_id, generation=generation))

    def leave(self, worker: str, mark: str) -> None:
        if self.rng.random() < 0.9:
            return
        member_id = self._id(worker)
        error = self.theirs.leave(member_id, worker)
        self.their_answers.append((mark, ("left",) if error is KafkaErrorCode.NONE else ("rejected", error)))
        self._take(mark, SendLeave(seq=1, node=1, member_id=member_id, reason=""))

    def wait(self, _worker: str, _mark: str) -> None:
        """Timers that are due at the same time may fire in either order."""
        left = self.rng.randint(0, self.rng.choice((1, TICK, 3 * TICK)))
        until = self.clock.now + left
        while self.clock.step(until=until):
            pass
        while True:
            due = sorted([*coordinator.timers(self.ours), (NOW + left + 1, "")])
            at, timer = due[0]
            self.tie |= at <= NOW + left and at == due[1][0]
            ms = min(at - NOW, left)
            self.ours = self.nodes.later(self.nodes.of(self.ours), ms).value
            left -= ms
            if at - ms > NOW:
                return
            self._taken(coordinator.fire(self.ours, timer))


def _answer(event: Event) -> Answer:
    match event:
        case Joined():
            told = (event.generation, event.leader, event.skip_assignment, _members(event.members))
            return ("joined", event.member_id, *told)
        case Synced():
            return ("synced", event.assignment)
        case HeartbeatAnswered():
            return ("beat", event.error)
        case RequestRejected():
            return ("rejected", event.error)
    return ("left",)


def _join_answer(reply: JoinReply) -> Answer:
    if reply.error is not KafkaErrorCode.NONE:
        return ("rejected", reply.error)
    told = (reply.generation, reply.leader, reply.skip_assignment, _members(reply.members))
    return ("joined", reply.member_id, *told)


def _sync_answer(reply: SyncReply) -> Answer:
    return ("synced", reply.assignment) if reply.error is KafkaErrorCode.NONE else ("rejected", reply.error)


def _members(members: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted((member.instance_id, member.member_id, member.metadata) for member in members))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_it_answers_like_the_coordinator_of_the_simulation(seed: int) -> None:
    both = Both(seed)
    while both.asked < STEPS and not both.tie:
        both.step()
