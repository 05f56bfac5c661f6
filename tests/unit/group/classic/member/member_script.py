"""A member machine that a test leads by the hand: one event in, the exact commands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from embedded_bytes import decode_metadata, encode_assignment

from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    HeartbeatAnswered,
    Joined,
    Request,
    RequestRejected,
    SendJoin,
    Started,
    Synced,
)
from airflow_provider.group.classic.member.member import handle
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import ArmTimer, Command, Event, PublishAssignment, TimerFired
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import (
    Assignment,
    ConfigOffset,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)

SETTINGS = MemberSettings(group_id="g", worker=WorkerId("w"))
SESSION_MS = SETTINGS.session_timeout_ms
LEASE_MS = SETTINGS.session_lease_ms
MARGIN_MS = SETTINGS.lease_margin_ms
NODE = 7
ME = MemberId("w-1")
OTHER = MemberId("v-1")


def tasks(names: str) -> Tasks:
    """``"a0 a1"``: the tasks 0 and 1 of job a."""
    return frozenset(TaskId(name[0], int(name[1:])) for name in names.split())


class Script:
    """Feeds events one after the other; the state is checked after each.

    Times are milliseconds of a monotonic clock; :meth:`at` sets it.
    """

    def __init__(self, settings: MemberSettings = SETTINGS, *, state: MemberState | None = None) -> None:
        self.state = state or MemberState(settings=settings)
        self.now = 0
        self.alarm: int | None = None

    def at(self, now_ms: int) -> Script:
        self.now = now_ms
        return self

    def feed(self, event_type: type[Event], **fields: Any) -> list[Command]:
        """Feed an event that happens now; ``seq`` is that of the request waited for unless given."""
        if "seq" in event_type.__dataclass_fields__:
            fields.setdefault("seq", self.state.awaiting)
        self.state, commands = handle(self.state, event_type(now_ms=self.now, **fields))
        self.state.validate()
        for command in commands:
            if isinstance(command, ArmTimer):
                self.alarm = command.at_ms
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

    def started(self, predecessor: Predecessor = Predecessor.GONE, config_offset: int = 0) -> Script:
        self.feed(Started, config_offset=ConfigOffset(config_offset), predecessor=predecessor)
        return self

    def joining(self) -> Script:
        """JoinGroup is sent."""
        self.started()
        self.feed(CoordinatorFound, node=NODE)
        return self

    def joined(
        self, generation: int = 1, *, leader: MemberId = OTHER, protocol: SubProtocol = SubProtocol.COMPATIBLE
    ) -> list[Command]:
        return self.feed(
            Joined,
            generation=GenerationId(generation),
            protocol=protocol,
            leader=leader,
            member_id=self.state.member_id or ME,
        )

    def synced(
        self,
        assigned: str = "",
        revoked: str = "",
        *,
        delay_ms: int = 0,
        error: int = 0,
        config_offset: int = 0,
        protocol: SubProtocol = SubProtocol.COMPATIBLE,
    ) -> list[Command]:
        assignment = Assignment(
            version=protocol.version,
            error=error,
            leader=self.state.leader,
            config_offset=ConfigOffset(config_offset),
            assigned=tasks(assigned),
            revoked=tasks(revoked),
            delay_ms=delay_ms,
        )
        return self.feed(Synced, assignment=encode_assignment(assignment))

    def stable(self, owned: str = "a0 a1 a2", *, protocol: SubProtocol = SubProtocol.COMPATIBLE) -> Script:
        """A follower in generation 2 that runs these."""
        self.joining()
        self.joined(1, protocol=protocol)
        self.synced(protocol=protocol)
        if protocol.cooperative:
            self.alarms(until=self.now + SETTINGS.session_timeout_ms // 2)  # no record comes: it joins again
        else:
            self.heartbeat(KafkaErrorCode.REBALANCE_IN_PROGRESS)
        self.joined(2, protocol=protocol)
        self.synced(owned, protocol=protocol)
        assert self.state.running == tasks(owned)
        return self

    def heartbeat(self, error: KafkaErrorCode = KafkaErrorCode.NONE, *, sent_at_ms: int | None = None) -> list[Command]:
        """A heartbeat was sent and answered."""
        return self.feed(
            HeartbeatAnswered,
            sent_at_ms=self.now if sent_at_ms is None else sent_at_ms,
            member_id=self.state.member_id,
            generation=self.state.generation,
            error=error,
        )

    def rejected(self, request: Request, error: KafkaErrorCode, **fields: Any) -> list[Command]:
        return self.feed(RequestRejected, request=request, error=error, **fields)


def published(script: Script, owned: str, revoking: str = "") -> PublishAssignment:
    return PublishAssignment(epoch=script.state.epoch, owned=tasks(owned), revoking=tasks(revoking))


def told(join: SendJoin) -> list[WorkerState]:
    return [decode_metadata(metadata) for _, metadata in join.protocols]


def only_join(commands: Sequence[Command]) -> SendJoin:
    (join,) = commands
    assert isinstance(join, SendJoin)
    return join
