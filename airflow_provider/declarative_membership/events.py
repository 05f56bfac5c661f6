"""What a member of a declarative group hears (events) and what it wants done (commands), with
:mod:`airflow_provider.protocol.member_events`, which any group protocol has.

A command that sends a request carries ``seq``; who answers it gives the same number back: so a late or doubled
reply is not taken for the one waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_provider.declarative.model import GroupEpoch
from airflow_provider.declarative.wire.apis import MemberRequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatResponse, HeartbeatAssignment
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentResponse, InstalledMember
from airflow_provider.declarative.wire.parts import Assignor
from airflow_provider.declarative.wire.prepare_assignment import ConnectGroupPrepareAssignmentResponse
from airflow_provider.declarative_membership.record import DeclarativeRecord
from airflow_provider.protocol.holding import Predecessor
from airflow_provider.protocol.member_events import Command, Event
from airflow_provider.protocol.model import ConfigOffset, Tasks


class Request(str, Enum):
    """The requests that a member sends."""

    HEARTBEAT = "ConnectGroupHeartbeat"
    PREPARE = "ConnectGroupPrepareAssignment"
    INSTALL = "ConnectGroupInstallAssignment"


# ---- events


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Event):
    """The worker's process is up and has read the jobs topic up to ``config_offset``.

    :param assignors: what it can run, the preferred one first; none where it asks for one of the coordinator's
    :param predecessor: what is known of the process that had the worker's name before
    """

    config_offset: ConfigOffset
    assignors: tuple[Assignor, ...] = ()
    predecessor: Predecessor = Predecessor.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The membership goes on in another process; its state was saved in the one before.

    :param predecessor: what is known of the worker's last process, for a membership that must join anew
    """

    config_offset: ConfigOffset
    assignors: tuple[Assignor, ...] = ()
    predecessor: Predecessor = Predecessor.GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswered(Event):
    """A heartbeat that was sent at ``sent_at_ms`` was answered.

    :param needed_offset: what the reply assigns may start when the jobs topic has been read so far
    """

    seq: int
    sent_at_ms: int
    reply: ConnectGroupHeartbeatResponse
    needed_offset: ConfigOffset = ConfigOffset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAnswered(Event):
    """The state of the group is here, from which this member shall compute an assignment; or the refusal."""

    seq: int
    sent_at_ms: int
    reply: ConnectGroupPrepareAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallAnswered(Event):
    """The coordinator has taken the computed assignment, or not."""

    seq: int
    sent_at_ms: int
    reply: ConnectGroupInstallAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Event):
    """A request got no answer: it could not be written, or nothing came back in time."""

    seq: int
    request: Request
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed(Event):
    """The assignor is done.

    :param members: what each member shall have; empty with an ``error``
    :param error: the assignor's; 0 is none
    :param group_epoch: of the state that it was made of
    :param delayed: what is left to nobody on purpose, as long as the delay runs
    :param delay_ms: when to ask for another assignment; 0: no need to
    """

    seq: int
    group_epoch: GroupEpoch
    members: tuple[InstalledMember, ...] = ()
    error: int = 0
    delayed: tuple[InstalledMember, ...] = ()
    record: DeclarativeRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaySet(Event):
    """The assignor has heard what this member was assigned (:class:`OnAssignment`), and wants another assignment later.

    :param over_at_ms: when (monotonic); None: it does not want one
    :param over_ms: the same by the wall clock, milliseconds since 1970
    """

    over_at_ms: int | None = None
    over_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorsChanged(Event):
    """What this worker says by its assignors is another thing now."""

    assignors: tuple[Assignor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksDue(Event):
    """Tasks have come to their end here and are to run again: they are retried, or planned anew. A coordinator that has
    seen them neither gone nor back assigns them to nobody: they are this member's still.
    """

    tasks: Tasks


# ---- commands


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest(Command):
    """Send it, and feed the reply or :class:`RequestFailed` with the same ``seq``.

    :param timeout_ms: how long to wait for the reply
    """

    seq: int
    request: Request
    body: MemberRequestBody
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignment(Command):
    """Run the selected assignor over this state of the group, and answer with :class:`AssignmentComputed`."""

    seq: int
    prepared: ConnectGroupPrepareAssignmentResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAssignment(Command):
    """Tell the assignor what this member was assigned, with what another member's assignor has to say to it; and answer
    with :class:`DelaySet`.
    """

    assignment: HeartbeatAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TellDelayOver(Command):
    """Have the assignors say that their delay is over: answer with :class:`AssignorsChanged`.

    :param over_ms: as :class:`DelaySet` had it
    """

    over_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishGroup(Command):
    """Write the ``group`` record: the coordinator has taken what this member has computed."""

    record: DeclarativeRecord
