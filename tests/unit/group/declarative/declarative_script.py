"""A member of a declarative group that a test leads by the hand: one event in, the exact commands out."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider.group.declarative.member.events import (
    HeartbeatAnswered,
    OnAssignment,
    Request,
    RequestFailed,
    SendRequest,
    Started,
)
from airflow_provider.group.declarative.member.member import handle
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState
from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    HeartbeatAssignment,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import ArmTimer, Command, Event, PublishAssignment, TimerFired
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, MemberId, TaskId, Tasks, WorkerId

SETTINGS: Final = DeclarativeSettings(group_id="g", worker=WorkerId("w"))
SESSION_MS: Final = 10_000
LEASE_MS: Final = 9_900
MARGIN_MS: Final = SETTINGS.lease_margin_ms
INTERVAL_MS: Final = 3_000
ME: Final = MemberId("w-1")
ASSIGNORS: Final = (Assignor(name="cooperative", minimum_version=0, maximum_version=2, version=2, metadata=b"m"),)


def tasks(names: str) -> Tasks:
    """``"a0 a1"``: the tasks 0 and 1 of job a."""
    return frozenset(TaskId(name[0], int(name[1:])) for name in names.split())


def answer(
    epoch: int,
    assigned: str | None = None,
    *,
    error: KafkaErrorCode = KafkaErrorCode.NONE,
    message: str | None = None,
    session_ms: int = SESSION_MS,
    assignment_epoch: int = 0,
    assignor_error: int = 0,
) -> ConnectGroupHeartbeatResponse:
    return ConnectGroupHeartbeatResponse(
        error_code=error,
        error_message=message,
        member_epoch=MemberEpoch(epoch),
        heartbeat_interval_ms=INTERVAL_MS,
        session_timeout_ms=session_ms,
        assignment=None
        if assigned is None
        else HeartbeatAssignment(
            error=assignor_error,
            connectors_and_tasks=units_of(tasks(assigned)),
            assignment_epoch=AssignmentEpoch(assignment_epoch),
        ),
    )


class Script:
    """Feeds events one after the other; the state is checked after each.

    Times are milliseconds of a monotonic clock; :meth:`at` sets it.

    :ivar sent_at: when the last heartbeat was sent
    """

    def __init__(self, state: MembershipState | None = None) -> None:
        self.state = state or MembershipState(settings=SETTINGS, member_id=ME)
        self.now = 0
        self.alarm: int | None = None
        self.sent_at = 0

    def at(self, now_ms: int) -> Script:
        self.now = now_ms
        return self

    def feed(self, event_type: type[Event], **fields: Any) -> list[Command]:
        """Feed an event that happens now; ``seq`` is that of the heartbeat waited for unless given."""
        if "seq" in event_type.__dataclass_fields__:
            fields.setdefault("seq", self.state.awaiting or -1)
        self.state, commands = handle(self.state, event_type(now_ms=self.now, **fields))
        self.state.validate()
        for command in commands:
            if isinstance(command, ArmTimer):
                self.alarm = command.at_ms
            if isinstance(command, SendRequest) and command.request is Request.HEARTBEAT:
                self.sent_at = self.now
        return [command for command in commands if not isinstance(command, ArmTimer)]

    def alarms(self, *, until: int) -> list[tuple[int, Command]]:
        """Let the clock run and the timer fire whenever it is due; everything that comes of it, with its time."""
        seen: list[tuple[int, Command]] = []
        while self.alarm is not None and self.alarm <= until:
            at, self.alarm = self.alarm, None
            seen += [(at, command) for command in self.at(max(at, self.now)).feed(TimerFired)]
        self.now = until
        return seen

    # ---- longer steps

    def started(self, predecessor: Predecessor = Predecessor.GONE, config_offset: int = 0) -> list[Command]:
        return self.feed(
            Started, config_offset=ConfigOffset(config_offset), predecessor=predecessor, assignors=ASSIGNORS
        )

    def answered(self, epoch: int, assigned: str | None = None, **fields: Any) -> list[Command]:
        """The heartbeat that is waited for was answered, without an error unless given."""
        needed = ConfigOffset(fields.pop("needed_offset", 0))
        sent_at = fields.pop("sent_at_ms", self.sent_at)
        reply = answer(epoch, assigned, **fields)
        return self.feed(HeartbeatAnswered, sent_at_ms=sent_at, reply=reply, needed_offset=needed)

    def refused(self, error: KafkaErrorCode, message: str | None = None) -> list[Command]:
        """The reply says no more than the error."""
        reply = ConnectGroupHeartbeatResponse(
            error_code=error, error_message=message, member_epoch=MemberEpoch(0), heartbeat_interval_ms=0
        )
        return self.feed(HeartbeatAnswered, sent_at_ms=self.sent_at, reply=reply)

    def failed(self, request: Request = Request.HEARTBEAT, **fields: Any) -> list[Command]:
        return self.feed(RequestFailed, request=request, cause="no reply", **fields)

    def stable(self, owned: str = "a0 a1", epoch: int = 5) -> Script:
        """In the group, running these, with a heartbeat on its way."""
        self.started()
        self.answered(0)
        self.answered(epoch, owned, assignment_epoch=epoch)
        assert self.state.running == tasks(owned)
        return self


def heartbeats(commands: list[Command]) -> list[ConnectGroupHeartbeatRequest]:
    return [
        command.body
        for command in commands
        if isinstance(command, SendRequest) and isinstance(command.body, ConnectGroupHeartbeatRequest)
    ]


def only_heartbeat(commands: list[Command]) -> ConnectGroupHeartbeatRequest:
    (body,) = heartbeats(commands)
    return body


def others(commands: list[Command]) -> list[Command]:
    """Without what is sent, said, and told the assignor."""
    return [command for command in commands if not isinstance(command, SendRequest | PublishAssignment | OnAssignment)]


def said(body: ConnectGroupHeartbeatRequest) -> Tasks | None:
    """What a heartbeat says that its member owns."""
    return None if body.connectors_and_tasks is None else tasks_of(body.connectors_and_tasks)
