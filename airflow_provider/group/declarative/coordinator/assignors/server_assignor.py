"""Server side assignors: the coordinator computes a target itself, by the logic of the client side assignors.

No member is asked, so the target is part of the answer to the request that made it necessary. Members can ask for one
if they have no client side assignors. Such members send no metadata, so only the instance id of a member that has left
is known. Kafka's consumer groups have server side assignors; the proposal only names the field in the heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.declarative.assignors import CooperativeAssignor, EagerAssignor
from airflow_provider.group.declarative.assignors.client_assignor import ClientSideAssignor, Group, GroupMember
from airflow_provider.group.declarative.coordinator.assignors.prepared import Prepared
from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, Member, MemberTarget, TargetAssignment


@dataclass(frozen=True, slots=True)
class AssignorHere:
    """A client side assignor that the coordinator runs: a
    :class:`~airflow_provider.group.declarative.coordinator.assignors.prepared.ServerAssignor`.
    """

    assignor: ClientSideAssignor

    def compute(self, prepared: Prepared, now_ms: int, max_delay_ms: int | None = None) -> TargetAssignment:
        """Compute the target of the prepared epoch.

        :param now_ms: wall clock, milliseconds since 1970
        :param max_delay_ms: the group's scheduled delay, in milliseconds; None: the assignor's default
        :raises ValueError: the group has no members
        """
        members, target = prepared.group.members, prepared.target
        assignment = self.assignor.assign(
            Group(
                computing=None,
                members={one: _member(member, target.of(one)) for one, member in members.items()},
                departed={one: _member(prepared.said_by(one), share) for one, share in prepared.departed.items()},
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
        """When another assignment is due, by the wall clock, in milliseconds since 1970; None: not before a change."""
        asked = [self.assignor.on_assignment(share) for share in target.members.values()]
        return min((at_ms for at_ms in asked if at_ms is not None), default=None)


def server_assignors(policy: Policy | None = None) -> Mapping[str, AssignorHere]:
    """The assignors that members can ask for, by name."""
    assignors: tuple[ClientSideAssignor, ...] = (CooperativeAssignor(policy=policy or Deferred()), EagerAssignor())
    return {assignor.name: AssignorHere(assignor) for assignor in assignors}


def voted(votes: Mapping[str | None, int]) -> str | None:
    """The server side assignor that most members ask for; ties go by name, as in KIP-848. None: no member asks for one.

    :param votes: the number of members that ask for each assignor, and for none (None)
    """
    names = [name for name in votes if name is not None]
    return min(names, key=lambda name: (-votes[name], name), default=None)


def _member(member: Member | None, target: MemberTarget) -> GroupMember:
    return GroupMember(instance_id=member.instance_id if member else None, target=target)
