"""A heartbeat that changes nothing costs the same in a group of any size."""

from __future__ import annotations

from time import process_time

import pytest
from coordinated import GROUP, heartbeat, whole

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.events import RequestArrived, RequestId
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import MemberId, TaskId

FEW, MANY = 100, 5_000
TASKS_EACH = 4


def target_of(members: list[MemberId]) -> TargetAssignment:
    """As many tasks for each."""
    shares = {
        member: frozenset(TaskId("j", index * TASKS_EACH + one) for one in range(TASKS_EACH))
        for index, member in enumerate(members)
    }
    return TargetAssignment(
        epoch=AssignmentEpoch(1), members={member: MemberTarget(tasks=share) for member, share in shares.items()}
    )


class Crowd:
    """So many members, all where they are to be."""

    def __init__(self, size: int) -> None:
        self.members = [MemberId(f"w{index}") for index in range(size)]
        self.requests = 0
        self.coordinator = Coordinator(CoordinatorSettings())
        member, target = Member(rebalance_timeout_ms=1), target_of(self.members)
        tasks = frozenset().union(*(share.tasks for share in target.members.values()))
        self.coordinator.replay(values.epoch_record(GROUP, GroupEpoch(1)))
        self.coordinator.replay(values.configured_record(GROUP, GroupEpoch(1), tasks))
        for member_id in self.members:
            self.coordinator.replay(values.member_record(GROUP, GroupEpoch(1), member_id, member))
            self.coordinator.replay(values.current_record(GROUP, member_id, CurrentAssignment()))
        self.coordinator.replay(values.target_record(GROUP, target))
        self.coordinator.loaded(0)
        for member_id in self.members:
            self.ask(heartbeat(member_id, 0))

    def ask(self, body: RequestBody) -> tuple[Record, ...]:
        self.requests += 1
        event = RequestArrived(now_ms=0, request=RequestId(self.requests), body=body)
        return self.coordinator.handle(event).records

    def a_heartbeat_each(self, members: list[MemberId]) -> float:
        """:returns: seconds of one"""
        group = self.coordinator.groups[GROUP]
        bodies = [heartbeat(member, group.current[member].epoch) for member in members]
        began = process_time()
        for body in bodies:
            assert not self.ask(body)
        return (process_time() - began) / len(members)


@pytest.mark.slow
def test_a_heartbeat_that_changes_nothing_does_not_look_at_the_others() -> None:
    few, many = Crowd(FEW), Crowd(MANY)
    costs = [(few.a_heartbeat_each(few.members), many.a_heartbeat_each(many.members[:1_000])) for _ in range(5)]
    of_few, of_many = min(one for one, _ in costs), min(other for _, other in costs)
    assert all(few.coordinator.groups[GROUP].current[member].assigned for member in few.members)
    assert of_many < 15 * of_few, f"{of_few * 1e6:.0f} µs with {FEW} members, {of_many * 1e6:.0f} µs with {MANY}"


@pytest.mark.slow
def test_so_many_can_join() -> None:
    """Each is compared with one of each kind, and not with all."""
    shard = Coordinator(CoordinatorSettings())
    costs = []
    for number in range(MANY):
        body = heartbeat(MemberId(f"w{number}"), 0, (), **whole())
        began = process_time()
        shard.handle(RequestArrived(now_ms=0, request=RequestId(number), body=body))
        costs.append(process_time() - began)
    early, late = sorted(costs[100:600])[250], sorted(costs[-500:])[250]
    assert late < 5 * early, f"the first join in {early * 1e6:.0f} µs, the last in {late * 1e6:.0f} µs"
