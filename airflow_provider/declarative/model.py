"""What a coordinator keeps of a declarative group (KIP-848, for Kafka Connect): the values, and no rule.

A group moves by three epochs, which are numbers of the same series and must not be mixed up. The *group epoch* grows
with each change of what an assignment is made of: its members, their assignors, the jobs. The *assignment epoch* is the
group epoch that the target assignment was computed from. A *member epoch* is the assignment epoch that this member has
reached. So member epoch <= assignment epoch <= group epoch, and in a group at rest all are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType

from airflow_provider.protocol.model import NO_TASKS, MemberId, Tasks

GroupEpoch = NewType("GroupEpoch", int)
"""The version of a group's metadata."""

AssignmentEpoch = NewType("AssignmentEpoch", int)
"""The group epoch that a target assignment was computed from."""

MemberEpoch = NewType("MemberEpoch", int)
"""The assignment epoch whose whole target a member has. Fences it: a request with another one is of the past."""

JOINING: Final = MemberEpoch(0)
"""The epoch of a member that has just joined, and the one with which a member asks to join."""

LEAVING: Final = MemberEpoch(-1)
"""The one with which a member asks to leave; no member in a group has it."""

AWAY: Final = MemberEpoch(-2)
"""The one with which a static member asks to leave for a while, and that it has until it is back."""


class MemberState(str, Enum):
    """How far a member is on the way to its target. Kafka's ``MemberState`` has the same, with longer names."""

    STABLE = "stable"
    """It has the whole target of its epoch."""
    UNREVOKED = "unrevoked"
    """It was asked to stop tasks, and has not said yet that it has."""
    UNRELEASED = "unreleased"
    """It has nothing to stop, and waits for tasks that others have not released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssignor:
    """An assignor that a member can run.

    :param name: members that can run the same one name it alike
    :param reason: why its metadata have changed; what a number means, the assignor knows
    :param minimum_version: of the metadata that it can read
    :param maximum_version: of the metadata that it can read
    :param version: of ``metadata``
    :param metadata: what the assignor says of this member
    """

    name: str
    minimum_version: int
    maximum_version: int
    version: int
    reason: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a member has said of itself in its heartbeats; in the words of KIP-848 for Connect a Worker.

    Where people can look at it stands in the metadata of its assignors: no request and no record has a field for a URL.

    :param instance_id: the name of a static member (KIP-345)
    :param client_id: of its Kafka client, for people
    :param client_host: where that is, for people
    :param rebalance_timeout_ms: how long it may take to stop what it is asked to stop
    :param server_assignor: the coordinator's own assignor that it asks for; then it has no ``client_assignors``
    :param client_assignors: what it can run itself, the preferred one first
    """

    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    server_assignor: str | None = None
    client_assignors: tuple[ClientAssignor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Who is in a group, and what it has to do: all that an assignment is made of.

    :param configured: the tasks that exist, planners among them
    """

    epoch: GroupEpoch = GroupEpoch(0)
    members: Mapping[MemberId, Member] = field(default_factory=dict)
    configured: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMetadata:
    """What an assignor sends one member along with its tasks. It belongs to these tasks, and goes where they go.

    :param error: the assignor's own; 0 is none
    :param version: of ``data``
    """

    error: int = 0
    version: int = 0
    data: bytes = b""


NO_METADATA: Final = AssignorMetadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTarget:
    """What one member is to have, no matter who has it now."""

    tasks: Tasks = NO_TASKS
    metadata: AssignorMetadata = NO_METADATA


NO_TARGET: Final = MemberTarget()
"""Of a member that the target assignment does not know: it came later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """What each member is to have in the end. It says nothing of the way there.

    :param error: why the assignor could not compute one; the members' targets are then those of before
    :param delayed: what nobody is to have yet, by the member that had it and has left: it may come back
    """

    epoch: AssignmentEpoch = AssignmentEpoch(0)
    error: int = 0
    members: Mapping[MemberId, MemberTarget] = field(default_factory=dict)
    delayed: Mapping[MemberId, MemberTarget] = field(default_factory=dict)

    def of(self, member: MemberId) -> MemberTarget:
        return self.members.get(member, NO_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """Where one member is on the way to its target, and what nobody else may have meanwhile.

    :param assigned: what it may run; all of it is sent with each answer
    :param revoking: what it was asked to stop and may still run
    :param metadata: of the target that tasks were last assigned from
    :param assignment_epoch: of that target, which may be later than the member's epoch and earlier than the group's
        target. What is written of its tasks is of this epoch: in no other target of it are they somebody else's
    """

    epoch: MemberEpoch = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    metadata: AssignorMetadata = NO_METADATA
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)

    @property
    def held(self) -> Tasks:
        """What may run there: nobody else is assigned it."""
        return self.assigned | self.revoking if self.revoking else self.assigned

    def is_at(self, epoch: AssignmentEpoch) -> bool:
        """Whether it has the whole target of that epoch, so that it need not be sent it."""
        return self.state is MemberState.STABLE and self.epoch == MemberEpoch(epoch)
