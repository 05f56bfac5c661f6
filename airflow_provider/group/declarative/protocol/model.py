"""The values that describe a declarative group (KIP-848, carried over to Kafka Connect). There are no rules here.

A group has three epochs. They are numbers of the same series and must not be mixed up. The *group epoch* grows with
each change of the input of an assignment: members, their assignors, jobs. The *assignment epoch* is the group epoch
from which the target assignment was computed. A *member epoch* is the assignment epoch that this member has reached. So
member epoch <= assignment epoch <= group epoch, and in a group at rest all are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NewType

from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks

GroupEpoch = NewType("GroupEpoch", int)
"""The number of the last change of an assignment's input."""

AssignmentEpoch = NewType("AssignmentEpoch", int)
"""The group epoch that a target assignment was computed from."""

MemberEpoch = NewType("MemberEpoch", int)
"""The assignment epoch whose whole target a member has. It fences the member: a request with another one is outdated.
"""

JOINING: Final = MemberEpoch(0)
"""The epoch of a member that has just joined, and the one with which a member asks to join."""

LEAVING: Final = MemberEpoch(-1)
"""The epoch with which a member asks to leave; no member in a group has it."""

AWAY: Final = MemberEpoch(-2)
"""The epoch with which a static member leaves for a while, and which it has until it returns."""


class MemberState(str, Enum):
    """How far a member is on the way to its target. Kafka's ``MemberState`` has the same, with longer names."""

    STABLE = "stable"
    """It has the whole target of its epoch."""
    UNREVOKED = "unrevoked"
    """It was asked to stop tasks, and has not yet said that it has stopped them."""
    UNRELEASED = "unreleased"
    """It has nothing to stop, and waits for tasks that other members have not released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a member has said of itself in its heartbeats. The proposal calls it a Worker.

    Its URL is in the metadata of its assignors, because no request or record has a field for it.

    :param instance_id: the name of a static member (KIP-345)
    :param client_id: the client id of its Kafka client, for people
    :param client_host: the host of that client, for people
    :param rebalance_timeout_ms: how long it may take to stop revoked tasks
    :param client_assignors: the assignors that it can run itself, the preferred one first
    """

    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    client_assignors: tuple[Assignor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The members and the work of a group: the input of an assignment.

    :param configured: the planners and tasks that exist
    """

    epoch: GroupEpoch = GroupEpoch(0)
    members: Mapping[MemberId, Member] = field(default_factory=dict)
    configured: Tasks = NO_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMetadata:
    """What an assignor sends one member along with its tasks.

    :param error: the assignor's own error; 0: none
    :param version: the version of ``data``
    """

    error: int = 0
    version: int = 0
    data: bytes = b""


NO_METADATA: Final = AssignorMetadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTarget:
    """The tasks that one member is to have, whichever member has them now."""

    tasks: Tasks = NO_TASKS
    metadata: AssignorMetadata = NO_METADATA


NO_TARGET: Final = MemberTarget()
"""The target of a member that joined after the target assignment was computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """The targets of all members. How they get there is up to :mod:`.reconcile`.

    :param error: the error of an assignor that could not compute one; then the members keep their targets; 0: none
    :param delayed: tasks that are assigned to nobody yet because they wait for a member that has left, by that member
    """

    epoch: AssignmentEpoch = AssignmentEpoch(0)
    error: int = 0
    members: Mapping[MemberId, MemberTarget] = field(default_factory=dict)
    delayed: Mapping[MemberId, MemberTarget] = field(default_factory=dict)

    def names(self, member: MemberId) -> bool:
        """Whether it has anything for this member, or delays tasks for it."""
        return member in self.members or member in self.delayed

    def of(self, member: MemberId) -> MemberTarget:
        """The target of this member; :data:`NO_TARGET` if there is none."""
        return self.members.get(member, NO_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """How far one member is on the way to its target, and the tasks that no other member may have in the meantime.

    :param assigned: the tasks that it may run; each answer with an assignment contains all of them
    :param revoking: the tasks that it was asked to stop, and may still run
    :param metadata: the metadata of the target from which tasks were last assigned
    :param assignment_epoch: the epoch of that target. It may be above the member's epoch, and below that of the present
        target. Records about the member's tasks have this epoch: no other member has the tasks in the same epoch
    :param last_said: of a former member that the target still names: what it had said of itself when it left
    """

    epoch: MemberEpoch = JOINING
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    metadata: AssignorMetadata = NO_METADATA
    assignment_epoch: AssignmentEpoch = AssignmentEpoch(0)
    last_said: Member | None = None

    @property
    def held(self) -> Tasks:
        """The tasks that may run there, and so are assigned to no other member."""
        return self.assigned | self.revoking if self.revoking else self.assigned

    def is_at(self, epoch: AssignmentEpoch) -> bool:
        """Whether the member has its whole target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == MemberEpoch(epoch)
