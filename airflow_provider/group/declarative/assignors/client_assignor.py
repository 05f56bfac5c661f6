"""The port of client side assignors, and their input and output: the proposal's interface ``ConnectAssignor``.

An assignor is selected by its name, and runs at one member, not always the same one. What it must remember from one
assignment to the next, it sends along with the target of each member
(:class:`~airflow_provider.group.declarative.protocol.model.MemberTarget`, the proposal's ``MemberAssignment``), and
gets it back with the next state, whichever member computes. So an assignor has no state, and nothing is lost with a
member.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Protocol

from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.model import NONE_ELSEWHERE, Absence, LeaveReason, TriedElsewhere
from airflow_provider.group.declarative.protocol.model import NO_TARGET, MemberTarget
from airflow_provider.values.model import NO_TASKS, MemberId, TaskId, Tasks, WorkerId


class Reason(IntEnum):
    """Why a member's metadata have changed, as these assignors number reasons (an int8)."""

    NONE = 0
    DELAY_OVER = 1
    """The delay that the assignor has asked for is over, and another assignment is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member, or one that has left, as an assignor sees it.

    :param instance_id: the name of a static member (KIP-345)
    :param reason: why its metadata have changed
    :param version: the version of ``metadata``
    :param metadata: what it says, or has said last, by this assignor
    :param target: its part of the last target assignment
    """

    instance_id: str | None = None
    reason: int = Reason.NONE
    version: int = 0
    metadata: bytes = b""
    target: MemberTarget = NO_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The input of an assignment: the proposal's ``Group``, with what else an assignor needs.

    :param computing: the member that computes: its target may say when it is to ask for the next assignment
    :param members: the members of the group
    :param departed: former members that have tasks in the last target assignment, or for which it delays some
    :param configured: the planners and tasks that exist
    :param max_delay_ms: the group's scheduled delay; None: the assignor's own
    :param now_ms: the wall clock where it is computed, in milliseconds since 1970
    :param revocation_rank: which running tasks to stop first if some must be stopped: those with the lowest rank; 0 for
        tasks that are not named. Known as far as the computing member knows it
    :param costs: what batch tasks cost, as far as the computing member knows it
    :param tried: the tasks that have failed, and where they are tried again, by the names of workers, likewise
    :param absent: what former members have written of their absence, which the coordinator may not know, likewise; it
        takes precedence over their metadata
    :param held_back: workers that may not be started, by their names, likewise: they get nothing new
    """

    computing: MemberId
    members: Mapping[MemberId, GroupMember]
    departed: Mapping[MemberId, GroupMember] = field(default_factory=dict)
    configured: Tasks = NO_TASKS
    now_ms: int
    max_delay_ms: int | None = None
    revocation_rank: Mapping[TaskId, int] = field(default_factory=dict)
    costs: Costs = NO_COSTS
    tried: TriedElsewhere = NONE_ELSEWHERE
    absent: Mapping[MemberId, Absence] = field(default_factory=dict)
    held_back: frozenset[WorkerId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The result of an assignor.

    :param error: why it could not compute an assignment, an int8; then all members keep their targets; 0: none
    :param members: the targets, with an entry for every member
    :param delayed: tasks that wait for a departed member, by that member
    """

    error: int = 0
    members: Mapping[MemberId, MemberTarget] = field(default_factory=dict)
    delayed: Mapping[MemberId, MemberTarget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What a member says by an assignor in its heartbeats. When it changes, a new assignment is computed.

    :param version: the version of ``metadata``, an int16
    """

    reason: int
    version: int
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What a member knows of itself and an assignment depends on.

    :param url: where people can look at the worker
    :param slots: how many tasks it runs at the same time; 0: unknown
    :param returns_ms: how many milliseconds its return takes at most if it is lost; 0: it never returns; None: unknown
    :param leaving: why it leaves, or is about to; None: it stays. A member that leaves soon gets nothing new
    :param unfit_at_ms: when it last found that a task should be elsewhere (wall clock), because it has failed there, or
        waits for a worker that will not return; 0: never. A later time only says that an assignment is due
    :param delay_over_ms: the time for which :meth:`ClientSideAssignor.on_assignment` has asked for a new assignment,
        once it has passed (wall clock, milliseconds since 1970); 0: no such time has passed
    """

    url: str = ""
    slots: int = 0
    returns_ms: int | None = None
    leaving: LeaveReason | None = None
    unfit_at_ms: int = 0
    delay_over_ms: int = 0


NOTHING_SAID: Final = WorkerFacts()


class ClientSideAssignor(Protocol):
    """An assignor that members run. It has no state, so it can be shared, and need not be saved with a membership."""

    @property
    def name(self) -> str:
        """Its name, the same at all members that can run it."""

    @property
    def minimum_version(self) -> int:
        """The lowest version of metadata that it can read: 0 EAGER, 1 COMPATIBLE, 2 SESSIONED, as in Connect."""

    @property
    def maximum_version(self) -> int:
        """The highest version of metadata that it can read."""

    def metadata(self, facts: WorkerFacts) -> Metadata:
        """What a member says by it. The same facts give the same bytes."""

    def assign(self, group: Group) -> Assignment:
        """Compute the target of each member.

        :raises ValueError: the group has no members
        """

    def on_assignment(self, assignment: MemberTarget) -> int | None:
        """Read from a member's new assignment when the member has to ask for the next one.

        :return: the time (wall clock, milliseconds since 1970) at which it asks, by metadata with ``delay_over_ms``. A
            later assignment replaces this time. None: it need not ask; this only concerns the member that computed
        """
