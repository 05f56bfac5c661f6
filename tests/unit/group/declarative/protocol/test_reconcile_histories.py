"""What must hold while members of a declarative group are reconciled, whatever gets lost, late or said twice.

The invariants are those of a public TLA+ model of KIP-848 (Vanlightly/kafka-tlaplus,
``groupprotocol/consumer_group_protocol_kip_848.tla``), by their names there, and some of our own. The coordinator is
here as small as it can be: it checks epochs as the protocol says, and for the rest asks :func:`reconcile`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from airflow_provider.group.declarative.protocol.model import (
    JOINING,
    AssignmentEpoch,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.reconcile import reconcile
from airflow_provider.values.model import NO_TASKS, MemberId, TaskId, Tasks

pytestmark = pytest.mark.slow

MEMBERS = tuple(map(MemberId, ("w1", "w2", "w3")))
ALL = tuple(TaskId("a", index) for index in range(-1, 5))

ROUNDS_TO_CONVERGE = 5
"""When nothing gets lost any more, each member is answered once in a round and stops what it has to. Who was fenced
hears of it; who still had to stop something from before is asked again; that is acknowledged, and what the newest
target takes is asked for; that is acknowledged; and now that all is released, everybody gets the rest.
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A heartbeat. ``number`` is its correlation id."""

    number: int
    epoch: MemberEpoch
    owned: Tasks | None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; ``epoch`` is None when the member is fenced."""

    number: int
    epoch: MemberEpoch | None
    assigned: Tasks | None = None


@dataclass(slots=True)
class Worker:
    """A member at its own end. It deals with the answer to its last heartbeat only, and once."""

    epoch: MemberEpoch = JOINING
    runs: Tasks = NO_TASKS
    stopping: Tasks = NO_TASKS
    said: Tasks | None = None
    number: int = 0
    waits: bool = False
    requests: deque[Request] = field(default_factory=deque)
    replies: deque[Reply] = field(default_factory=deque)

    def send(self) -> None:
        """A heartbeat that says what it owns, unless it has said so and been answered since."""
        self.number += 1
        owned = None if self.said == self.runs else self.runs
        self.requests.append(Request(self.number, self.epoch, owned))
        self.waits, self.said = True, self.runs

    def give_up(self) -> None:
        self.waits, self.said = False, None

    def take(self, reply: Reply) -> None:
        if not self.waits or reply.number != self.number:
            return
        self.waits = False
        if reply.epoch is None:
            self.epoch, self.runs, self.stopping, self.said = JOINING, NO_TASKS, NO_TASKS, None
            return
        assert reply.epoch >= self.epoch, "ClientSideMemberEpochIsMonotonic"
        self.epoch = reply.epoch
        if reply.assigned is not None:
            self.stopping = self.runs - reply.assigned
            self.runs |= reply.assigned

    def stop(self, tasks: Tasks) -> None:
        self.runs -= tasks & self.stopping
        self.stopping -= tasks


@dataclass(slots=True)
class Coordinator:
    """Its target assignment, and where each member of the group is."""

    target: TargetAssignment = field(default_factory=TargetAssignment)
    members: dict[MemberId, CurrentAssignment] = field(default_factory=dict)

    def handle(self, member: MemberId, request: Request) -> Reply:
        """Only who owns nothing joins: a newcomer that waits for the rest of its target runs tasks in the epoch 0."""
        if request.epoch == JOINING and request.owned == NO_TASKS:
            self.members.setdefault(member, CurrentAssignment())
        if not self._accepts(member, request):
            self.members.pop(member, None)
            return Reply(request.number, None)
        before = self.members[member]
        others = NO_TASKS.union(*(its.held for other, its in self.members.items() if other != member))
        after = self.members[member] = reconcile(
            before,
            self.target.of(member),
            self.target.epoch,
            owned=request.owned,
            held_by_others=others,
        )
        assert after.epoch >= before.epoch, "GcSideMemberEpochIsMonotonic"
        assert not (after.assigned - before.assigned and after.revoking - before.revoking), "both in one answer"
        if after.state is not MemberState.UNREVOKED:
            assert self.target.of(member).tasks - after.assigned <= others, "what is free is not kept back"
        return Reply(request.number, after.epoch, after.assigned if request.epoch < self.target.epoch else None)

    def _accepts(self, member: MemberId, request: Request) -> bool:
        """An epoch that is behind may mean that the answer with the new one was lost."""
        current = self.members.get(member)
        if current is None or request.epoch > current.epoch:
            return False
        return request.epoch == current.epoch or (
            request.owned is not None and request.owned <= self.target.of(member).tasks
        )


class Histories(RuleBasedStateMachine):
    """Members that join, stop when they like, are fenced; targets that come; messages that are lost or late."""

    def __init__(self) -> None:
        super().__init__()
        self.workers = {member: Worker() for member in MEMBERS}
        self.coordinator = Coordinator()

    @rule(places=st.tuples(*(st.integers(0, len(MEMBERS)) for _ in ALL)))
    def new_target(self, places: tuple[int, ...]) -> None:
        targets = {
            member: MemberTarget(tasks=frozenset(task for task, its in zip(ALL, places, strict=True) if its == number))
            for number, member in enumerate(MEMBERS)
        }
        epoch = AssignmentEpoch(self.coordinator.target.epoch + 1)
        self.coordinator.target = TargetAssignment(epoch=epoch, members=targets)

    @rule(places=st.tuples(*(st.integers(0, len(MEMBERS)) for _ in ALL)))
    def new_target_that_all_hear_of(self, places: tuple[int, ...]) -> None:
        self.new_target(places)
        for member in MEMBERS:
            self.heartbeat_is_answered(member)

    @rule(member=st.sampled_from(MEMBERS))
    def heartbeat(self, member: MemberId) -> None:
        """One after the other: the next is sent when the last was answered, or given up."""
        worker = self.workers[member]
        if worker.waits:
            worker.give_up()
        worker.send()

    @rule(member=st.sampled_from(MEMBERS))
    def deliver(self, member: MemberId) -> None:
        """Whatever is under way, a request first."""
        worker = self.workers[member]
        if worker.requests:
            worker.replies.append(self.coordinator.handle(member, worker.requests.popleft()))
        elif worker.replies:
            worker.take(worker.replies.popleft())

    @rule(member=st.sampled_from(MEMBERS))
    def heartbeat_is_answered(self, member: MemberId) -> None:
        self.heartbeat(member)
        self.deliver_all(member)

    @rule(member=st.sampled_from(MEMBERS))
    def request_is_lost(self, member: MemberId) -> None:
        if self.workers[member].requests:
            self.workers[member].requests.pop()

    @rule(member=st.sampled_from(MEMBERS))
    def reply_is_lost(self, member: MemberId) -> None:
        if self.workers[member].replies:
            self.workers[member].replies.popleft()

    @rule(member=st.sampled_from(MEMBERS), tasks=st.frozensets(st.sampled_from(ALL)))
    def some_tasks_stop(self, member: MemberId, tasks: Tasks) -> None:
        """The others take longer, and a heartbeat is due meanwhile."""
        self.workers[member].stop(tasks)
        self.heartbeat_is_answered(member)

    @rule(member=st.sampled_from(MEMBERS))
    def all_tasks_stop(self, member: MemberId) -> None:
        self.workers[member].stop(self.workers[member].stopping)

    @precondition(lambda self: self.coordinator.members)
    @rule(member=st.sampled_from(MEMBERS))
    def expire(self, member: MemberId) -> None:
        """The coordinator takes a member that still lives out of the group; it will hear of it."""
        self.coordinator.members.pop(member, None)

    @rule()
    def settle(self) -> None:
        """EventuallyConverges, and how soon."""
        for worker in self.workers.values():
            worker.requests.clear()
            worker.replies.clear()
        for _ in range(ROUNDS_TO_CONVERGE):
            for member, worker in self.workers.items():
                self.heartbeat(member)
                self.deliver_all(member)
                worker.stop(worker.stopping)
        for member, worker in self.workers.items():
            current = self.coordinator.members[member]
            assert current.is_at(self.coordinator.target.epoch)
            assert worker.epoch == current.epoch
            assert worker.runs == current.assigned == self.coordinator.target.of(member).tasks

    def deliver_all(self, member: MemberId) -> None:
        while self.workers[member].requests or self.workers[member].replies:
            self.deliver(member)

    @invariant()
    def no_double_client_assignment(self) -> None:
        running = [task for member in self.coordinator.members for task in self.workers[member].runs]
        assert len(running) == len(set(running))

    @invariant()
    def nothing_is_held_by_two(self) -> None:
        held = [task for current in self.coordinator.members.values() for task in current.held]
        assert len(held) == len(set(held))

    @invariant()
    def what_runs_in_the_group_is_held(self) -> None:
        for member, current in self.coordinator.members.items():
            if self.workers[member].epoch != JOINING:
                assert self.workers[member].runs <= current.held

    @invariant()
    def valid_member_epoch(self) -> None:
        """Who has reached the target's epoch runs nothing that is to be another's."""
        target = self.coordinator.target
        for member in self.coordinator.members:
            worker = self.workers[member]
            if worker.epoch == MemberEpoch(target.epoch) > JOINING:
                assert worker.runs <= target.of(member).tasks

    @invariant()
    def the_state_says_what_the_sets_do(self) -> None:
        target = self.coordinator.target
        for member, current in self.coordinator.members.items():
            assert (current.state is MemberState.UNREVOKED) == bool(current.revoking)
            assert current.epoch <= MemberEpoch(target.epoch)
            assert current.assigned.isdisjoint(current.revoking)
            if current.is_at(target.epoch):  # ValidStableGroupState, member by member
                assert current.assigned == target.of(member).tasks


Histories.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase


some_tasks = st.frozensets(st.sampled_from(ALL))


@settings(deadline=None)
@given(
    places=st.tuples(*(st.sampled_from(["", "assigned", "revoking", "others"]) for _ in ALL)),
    state=st.sampled_from(MemberState),
    target=some_tasks,
    owned=st.none() | some_tasks,
    ahead=st.integers(0, 2),
)
def test_a_heartbeat_that_comes_twice_changes_nothing_more(
    places: tuple[str, ...], state: MemberState, target: Tasks, owned: Tasks | None, ahead: int
) -> None:
    assigned, revoking, others = (
        frozenset(task for task, its in zip(ALL, places, strict=True) if its == place)
        for place in ("assigned", "revoking", "others")
    )
    current = CurrentAssignment(epoch=MemberEpoch(3), state=state, assigned=assigned, revoking=revoking)

    def step(current: CurrentAssignment) -> CurrentAssignment:
        its = MemberTarget(tasks=target)
        return reconcile(current, its, AssignmentEpoch(3 + ahead), owned=owned, held_by_others=others)

    once = step(current)
    assert step(once) is once
