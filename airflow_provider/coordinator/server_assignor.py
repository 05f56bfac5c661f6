"""The coordinator computes by itself, by the logic of the client side assignors: no member is asked, so a target is
there with the request that made it necessary.

It is an option of members that have no client side assignors, and say nothing with one: of who has left only its name
is known. Kafka's consumer groups have this; the proposal names the field in the heartbeat and says nothing else of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.assignors.policy import Deferred, Policy
from airflow_provider.client_assignors import CooperativeAssignor, EagerAssignor
from airflow_provider.client_assignors.client_assignor import ClientSideAssignor, Group, GroupMember
from airflow_provider.coordinator.installing import Prepared
from airflow_provider.declarative.model import AssignmentEpoch, Member, MemberTarget, TargetAssignment


@dataclass(frozen=True, slots=True)
class AssignorHere:
    """A client side assignor, run where the group is coordinated: a
    :class:`~airflow_provider.coordinator.settings.ServerAssignor`.
    """

    assignor: ClientSideAssignor

    def compute(self, prepared: Prepared, now_ms: int, max_delay_ms: int | None = None) -> TargetAssignment:
        """The target of the epoch that was prepared.

        :param now_ms: wall clock, milliseconds since 1970
        :param max_delay_ms: how long the group has the tasks of a lost member wait for it; None: the assignor's default
        :raises ValueError: for a group without members
        """
        members, target = prepared.group.members, prepared.target
        assignment = self.assignor.assign(
            Group(
                computing=None,
                members={one: _seen(member, target.of(one)) for one, member in members.items()},
                departed={one: _seen(prepared.last_said.get(one), share) for one, share in prepared.departed.items()},
                configured=prepared.group.configured,
                now_ms=now_ms,
                max_delay_ms=max_delay_ms,
            )
        )
        return TargetAssignment(
            epoch=AssignmentEpoch(prepared.group.epoch),
            error=assignment.error,
            members=assignment.members if not assignment.error else target.members,
            delayed=assignment.delayed if not assignment.error else target.delayed,
        )

    def due_at_ms(self, target: TargetAssignment) -> int | None:
        """When another assignment is due, wall clock, milliseconds since 1970. None: when something changes."""
        asked = [self.assignor.on_assignment(share) for share in target.members.values()]
        return min((at_ms for at_ms in asked if at_ms is not None), default=None)


def server_assignors(policy: Policy | None = None) -> Mapping[str, AssignorHere]:
    """What members can ask for, by name."""
    assignors: tuple[ClientSideAssignor, ...] = (CooperativeAssignor(policy=policy or Deferred()), EagerAssignor())
    return {assignor.name: AssignorHere(assignor) for assignor in assignors}


def voted(votes: Mapping[str | None, int]) -> str | None:
    """The server side assignor that most members ask for, and of those with equally many the first by name; None:
    nobody asks for one. As KIP-848 selects it.

    :param votes: how many ask for each; None: for none
    """
    names = [name for name in votes if name is not None]
    return min(names, key=lambda name: (-votes[name], name), default=None)


def _seen(member: Member | None, target: MemberTarget) -> GroupMember:
    return GroupMember(instance_id=member.instance_id if member else None, target=target)
