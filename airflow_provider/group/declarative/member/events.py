"""The events and commands of a member of a declarative group. Those that all group protocols share are in
:mod:`airflow_provider.group.machine.events`.

A command that sends a request has a number, ``seq``, and the event with its reply has the same one. So a late or
repeated reply is not taken for the awaited one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.wire.messages.apis import MemberRequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentResponse,
    HeartbeatAssignment,
    InstalledMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import Command, Event
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.values.model import ConfigOffset, Tasks


class Request(str, Enum):
    """The requests that a member sends."""

    HEARTBEAT = "ConnectGroupHeartbeat"
    PREPARE = "ConnectGroupPrepareAssignment"
    INSTALL = "ConnectGroupInstallAssignment"


# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The worker's process is up and has read the jobs topic up to ``config_offset``.

    :param assignors: the assignors that it can run, the preferred one first
    :param predecessor: what is known of the process that had the worker's name before
    """

    config_offset: ConfigOffset
    assignors: tuple[Assignor, ...] = ()
    predecessor: Predecessor = Predecessor.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Started):
    """The membership continues in this process; another process has saved its state.

    :param predecessor: what is known of the worker's last process, if the membership must join again
    """

    predecessor: Predecessor = Predecessor.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswered(Event):
    """A heartbeat that was sent at ``sent_at_ms`` was answered.

    :param needed_offset: new tasks may start when the jobs topic was read up to this offset
    """

    seq: int
    sent_at_ms: int
    reply: ConnectGroupHeartbeatResponse
    needed_offset: ConfigOffset = ConfigOffset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAnswered(Event):
    """The request for the group's state was answered, or refused."""

    seq: int
    sent_at_ms: int
    reply: ConnectGroupPrepareAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallAnswered(Event):
    """The coordinator has installed the computed assignment, or refused it."""

    seq: int
    sent_at_ms: int
    reply: ConnectGroupInstallAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Event):
    """A request got no answer: it could not be written, or no reply came in time."""

    seq: int
    request: Request
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed(Event):
    """The assignor has computed an assignment.

    :param group_epoch: the group epoch of the state from which it was computed
    :param members: the targets of the members; empty with an ``error``
    :param error: the assignor's error; 0: none
    :param delayed: tasks that wait for members that have left
    :param record: the group record about it; None: there is none to write
    """

    seq: int
    group_epoch: GroupEpoch
    members: tuple[InstalledMember, ...] = ()
    error: int = 0
    delayed: tuple[InstalledMember, ...] = ()
    record: DeclarativeRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaySet(Event):
    """The assignor was told this member's assignment (:class:`OnAssignment`), and may want another one later.

    :param over_at_ms: when it wants one, by the monotonic clock; None: it does not
    :param over_ms: the same time by the wall clock, in milliseconds since 1970
    """

    over_at_ms: int | None = None
    over_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorsChanged(Event):
    """What this worker says by its assignors has changed."""

    assignors: tuple[Assignor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksDue(Event):
    """Tasks that have ended here are to run again, because they are retried or were planned anew.

    If the coordinator has not noticed that they were gone, it does not assign them again: they still belong to this
    member.
    """

    tasks: Tasks


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest(Command):
    """Send a request, and answer with its reply or :class:`RequestFailed`, with the same ``seq``.

    :param timeout_ms: how long to wait for the reply
    """

    seq: int
    request: Request
    body: MemberRequestBody
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignment(Command):
    """Run the selected assignor on this state of the group, and answer with :class:`AssignmentComputed`."""

    seq: int
    prepared: ConnectGroupPrepareAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAssignment(Command):
    """Tell the assignor this member's assignment and its metadata, and answer with :class:`DelaySet`."""

    assignment: HeartbeatAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TellDelayOver(Command):
    """Let the assignors say that the delay is over, and answer with :class:`AssignorsChanged`.

    :param over_ms: that of :class:`DelaySet`
    """

    over_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishGroup(Command):
    """Write the ``group`` record of an assignment that this member has computed and the coordinator has installed."""

    record: DeclarativeRecord
