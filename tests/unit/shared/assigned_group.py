"""A declarative group as its assignor sees it: members come and go, time passes, and each target is that of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider.assignment.costs import NO_COSTS
from airflow_provider.assignment.model import TriedElsewhere
from airflow_provider.assignment.policy import Policy
from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import (
    NOTHING_SAID,
    Assignment,
    ClientSideAssignor,
    Group,
    GroupMember,
    WorkerFacts,
)
from airflow_provider.group.declarative.protocol.model import NO_TARGET, MemberTarget
from airflow_provider.values.model import NO_TASKS, MemberId, TaskId, Tasks, WorkerId


def jobs(sizes: Mapping[str, int]) -> Tasks:
    """The planner and the tasks of jobs, given by name and number of tasks."""
    return frozenset(TaskId(job, index) for job, number in sizes.items() for index in range(-1, number))


def ids(names: Iterable[str]) -> tuple[MemberId, ...]:
    return tuple(MemberId(name) for name in names)


class DeclarativeGroup:
    """Who is there, what it says, and what everybody was given last.

    :ivar facts: what each member says
    :ivar gone: what those who have left since the last target said last
    """

    def __init__(
        self, configured: Tasks = NO_TASKS, *, policy: Policy | None = None, assignor: ClientSideAssignor | None = None
    ) -> None:
        self.assignor = assignor or (CooperativeAssignor(policy=policy) if policy else CooperativeAssignor())
        self.configured = configured
        self.now_ms = 1_700_000_000_000
        self.facts: dict[MemberId, WorkerFacts] = {}
        self.instances: dict[MemberId, str] = {}
        self.last = Assignment()
        self.gone: dict[MemberId, GroupMember] = {}
        self.rank: dict[TaskId, int] = {}
        self.costs = NO_COSTS
        self.better: dict[TaskId, WorkerId] = {}

    def join(self, *names: str, facts: WorkerFacts = NOTHING_SAID, instance: str = "") -> None:
        for member in ids(names):
            self.facts[member] = facts
            self.gone.pop(member, None)
            if instance:
                self.instances[member] = instance

    def leave(self, *names: str, facts: WorkerFacts | None = None) -> None:
        for member in ids(names):
            if facts is not None:
                self.facts[member] = facts
            self.gone[member] = self._seen(member, NO_TARGET)
            del self.facts[member]

    def _seen(self, member: MemberId, target: MemberTarget) -> GroupMember:
        if member not in self.facts:
            return replace(self.gone.get(member, GroupMember()), target=target)
        says = self.assignor.metadata(self.facts[member])
        return GroupMember(
            instance_id=self.instances.get(member),
            reason=says.reason,
            version=says.version,
            metadata=says.metadata,
            target=target,
        )

    def seen(self, computing: MemberId | None = None) -> Group:
        """What the assignor is given."""
        before = self.last.members
        departed = {member: target for member, target in before.items() if member not in self.facts}
        return Group(
            computing=computing or next(iter(self.facts)),
            members={member: self._seen(member, before.get(member, NO_TARGET)) for member in self.facts},
            departed={
                member: replace(self._seen(member, NO_TARGET), target=target)
                for member, target in {**departed, **self.last.delayed}.items()
            },
            configured=self.configured,
            now_ms=self.now_ms,
            revocation_rank=self.rank,
            costs=self.costs,
            tried=TriedElsewhere(places=self.better),
        )

    def assign(self, computing: str | None = None) -> Assignment:
        self.last = self.assignor.assign(self.seen(MemberId(computing) if computing else None))
        self.gone.clear()
        self.validate()
        return self.last

    def validate(self) -> None:
        """Every task is assigned or delayed, once, and everybody who is there has an entry."""
        given = [task for share in self.shares.values() for task in share]
        given += [task for target in self.last.delayed.values() for task in target.tasks]
        assert len(given) == len(set(given))
        assert frozenset(given) == self.configured
        assert self.last.members.keys() == self.facts.keys()

    @property
    def shares(self) -> dict[MemberId, Tasks]:
        return {member: target.tasks for member, target in self.last.members.items()}

    @property
    def delayed(self) -> dict[MemberId, Tasks]:
        return {member: target.tasks for member, target in self.last.delayed.items()}

    @property
    def asks(self) -> dict[MemberId, int]:
        """Who is to ask for the next assignment, and in how many milliseconds."""
        asked = {member: self.assignor.on_assignment(target) for member, target in self.last.members.items()}
        return {member: at_ms - self.now_ms for member, at_ms in asked.items() if at_ms is not None}

    def call_over(self) -> None:
        """Time passes until somebody is to ask for the next assignment, and it does."""
        ((member, wait_ms),) = self.asks.items()
        self.now_ms += wait_ms
        self.facts[member] = replace(self.facts[member], delay_over_ms=self.now_ms)


def moved(before: Mapping[MemberId, Tasks], after: Mapping[MemberId, Tasks]) -> Tasks:
    """What members have lost to others."""
    return NO_TASKS.union(*(tasks - after.get(member, NO_TASKS) for member, tasks in before.items()))
