"""What a client side assignor is to a declarative group: the interface ``ConnectAssignor`` of the proposal, as values.

An assignor is chosen by its name, and runs at one member, which changes. What it must remember from one assignment to
the next, it sends along with the target of each member (:class:`~airflow_provider.declarative.model.MemberTarget`, the
proposal's ``MemberAssignment``): it gets that back, whoever computes the next one. So an assignor keeps nothing itself,
and nothing is lost with the member that ran it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from airflow_provider.assignors.costs import NO_COSTS, Costs
from airflow_provider.assignors.model import LeaveReason
from airflow_provider.declarative.model import NO_TARGET, MemberTarget
from airflow_provider.protocol.model import NO_TASKS, MemberId, TaskId, Tasks


class Reason(IntEnum):
    """Why a member's metadata have changed, as our assignors number it: an int8."""

    NONE = 0
    DELAY_OVER = 1
    """The delay that the assignor has asked for is over: the group wants another assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member, or one that has left, as an assignor sees it.

    :param instance_id: the name of a static member (KIP-345)
    :param reason: why its metadata have changed
    :param version: of ``metadata``
    :param metadata: what it says, or has said last, with this assignor
    :param target: what the last target assignment gave it
    """

    instance_id: str | None = None
    reason: int = Reason.NONE
    version: int = 0
    metadata: bytes = b""
    target: MemberTarget = NO_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All that an assignment is made of. The proposal's ``Group`` with what its interface leaves to the assignor.

    :param computing: the member that computes: its target may say when it is to ask for the next assignment. None: the
        coordinator does
    :param members: to whom something can be assigned
    :param departed: who is no member, and had something by the last target assignment, or has it kept
    :param configured: the planners and tasks that exist
    :param max_delay_ms: how long the group has the tasks of a lost member wait for it; None: the assignor's own
    :param now_ms: wall clock of who computes, milliseconds since 1970
    :param revocation_rank: what costs to stop, the cheapest first, as far as who computes knows; 0 where not given
    :param costs: what batch tasks cost, as far as who computes knows
    """

    computing: MemberId | None
    members: Mapping[MemberId, GroupMember]
    departed: Mapping[MemberId, GroupMember] = field(default_factory=dict)
    configured: Tasks = NO_TASKS
    now_ms: int
    max_delay_ms: int | None = None
    revocation_rank: Mapping[TaskId, int] = field(default_factory=dict)
    costs: Costs = NO_COSTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What an assignor wants.

    :param error: why it could not compute one, an int8: all keep what they have then; 0 is none
    :param members: what each member is to have, with an entry for every member
    :param delayed: what nobody is to have yet, by the departed member that had it
    """

    error: int = 0
    members: Mapping[MemberId, MemberTarget] = field(default_factory=dict)
    delayed: Mapping[MemberId, MemberTarget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a member sends with this assignor in its heartbeats. When it is another than before, a new assignment is
    made.

    :param version: of ``metadata``, an int16
    """

    reason: int
    version: int
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What a member knows of itself that matters to an assignment.

    :param url: where people can look at it
    :param slots: how many tasks it runs together; 0: it doesn't say
    :param returns_ms: if it goes without a word, in how many milliseconds it is back at the latest; 0: it never comes
        back; None: it doesn't say
    :param leaving: why it is about to leave, or leaves; None: it stays. While it is a member it gets nothing new
    :param delay_over_ms: wall clock for which :meth:`ClientSideAssignor.on_assignment` asked for a new assignment, once
        that has passed; 0: it has not asked, or that is to come
    """

    url: str = ""
    slots: int = 0
    returns_ms: int | None = None
    leaving: LeaveReason | None = None
    delay_over_ms: int = 0


NOTHING_SAID: Final = WorkerFacts()


class ClientSideAssignor(Protocol):
    """An assignor that members run. Without state: it can be shared, and a member that is saved need not save it."""

    @property
    def name(self) -> str:
        """Members that can run the same one name it alike."""

    @property
    def minimum_version(self) -> int:
        """Of the metadata that it can read: 0 EAGER, 1 COMPATIBLE, 2 SESSIONED, as Connect's protocols."""

    @property
    def maximum_version(self) -> int:
        """Of the metadata that it can read."""

    def metadata(self, facts: WorkerFacts) -> Metadata:
        """What a member says with it. The same facts give the same bytes."""

    def assign(self, group: Group) -> Assignment:
        """Compute what each member is to have.

        :raises ValueError: for a group without members
        """

    def on_assignment(self, assignment: MemberTarget) -> int | None:
        """What a member has to do for the assignor when it gets an assignment.

        :return: wall clock, milliseconds since 1970, at which it is to ask for another one, by metadata with
            ``delay_over_ms``; a later assignment replaces that. None: it need not. Only who computed is asked to
        """
