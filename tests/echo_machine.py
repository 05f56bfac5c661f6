"""A coordinator machine that only echoes, for tests of what surrounds the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from airflow_provider.group.declarative.coordinator.events import (
    BridgeClaims,
    Effects,
    Event,
    JobsRead,
    Reply,
    RequestArrived,
    TimerFired,
    ToBridge,
)
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
)
from airflow_provider.group.declarative.protocol.wire.record_values import (
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
)
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks

RAISES = MemberId("raises")
"""A member whose heartbeats make the machine fail. So do those of members whose ids begin so."""
HELD = MemberId("held")
"""A member whose heartbeats are answered when the timer fires."""
TICKING = MemberId("ticking")
"""A member because of whom the timer fires again and again."""
SILENT = MemberId("silent")
"""A member whose heartbeats change nothing and are never answered."""
HEARTBEAT_MS = 1_000
SESSION_MS = 10_000
SHORT = "short"
"""A group with a shorter session, from its first heartbeat on."""
SHORT_MS = 5_000


@dataclass
class EchoGroup:
    epoch: int = 0
    members: set[str] = field(default_factory=set)
    tasks: int = -1


class EchoMachine:
    """Counts a group's heartbeats in its records. Replies carry this count and the number of the group's tasks."""

    def __init__(self) -> None:
        self.groups: dict[str, EchoGroup] = {}
        self._held: list[Reply] = []
        self._instances: dict[tuple[str, MemberId], str | None] = {}
        self._timer_at_ms: int | None = None
        self._ticks = False

    @property
    def session_ms(self) -> int:
        return SESSION_MS

    @property
    def shortest_session_ms(self) -> int:
        return SHORT_MS if SHORT in self.groups else SESSION_MS

    @property
    def longest_session_ms(self) -> int:
        return SESSION_MS

    def replay(self, record: Record) -> None:
        if not isinstance(record.value, ConnectWorkerGroupMetadataValue):
            return  # written by a real machine that served the shard before
        group = self.groups.setdefault(record.key.group_id, EchoGroup())
        group.epoch = record.value.epoch
        group.members.add("somebody")

    def has_members(self, group_id: str) -> bool:
        return group_id in self.groups and bool(self.groups[group_id].members)

    def instance_of(self, group_id: str, member_id: MemberId) -> str | None:
        return self._instances.get((group_id, member_id))

    def claims(self, group_id: str) -> BridgeClaims:
        return BridgeClaims()

    def to_bridge(self, group_id: str, asked: Tasks) -> ToBridge:
        return ToBridge(members=0, wants_epoch=False, free=NO_TASKS)

    def loaded(self, now_ms: int) -> Effects:
        return Effects()

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        each = [self.handle(event) for event in events]
        return Effects(
            records=tuple(chain.from_iterable(effects.records for effects in each)),
            replies=tuple(chain.from_iterable(effects.replies for effects in each)),
            timer_at_ms=self._timer_at_ms,
        )

    def handle(self, event: Event) -> Effects:
        if isinstance(event, JobsRead):
            self.groups[event.group_id].tasks = len(event.tasks)
        if isinstance(event, TimerFired):
            held, self._held = self._held, []
            self._timer_at_ms = event.now_ms + HEARTBEAT_MS if self._ticks else None
            return Effects(replies=tuple(held), timer_at_ms=self._timer_at_ms)
        return self._ask(event) if isinstance(event, RequestArrived) else Effects(timer_at_ms=self._timer_at_ms)

    def _ask(self, event: RequestArrived) -> Effects:
        body = event.body
        assert isinstance(body, ConnectGroupHeartbeatRequest)
        self._instances.setdefault((body.group_id, body.member_id), body.instance_id)
        if body.member_id.startswith(RAISES):
            raise RuntimeError("a fault of the machine")
        if body.member_id == SILENT:
            return Effects(timer_at_ms=self._timer_at_ms)
        epoch = self.groups[body.group_id].epoch if body.group_id in self.groups else 0
        record = Record(
            ConnectWorkerGroupMetadataKey(body.group_id), ConnectWorkerGroupMetadataValue(epoch=GroupEpoch(epoch + 1))
        )
        self.replay(record)
        answer = ConnectGroupHeartbeatResponse(
            member_epoch=MemberEpoch(epoch + 1),
            heartbeat_interval_ms=HEARTBEAT_MS,
            throttle_time_ms=max(0, self.groups[body.group_id].tasks),
        )
        reply = Reply(event.request, answer)
        if body.member_id == HELD:
            self._held.append(reply)
            self._timer_at_ms = event.now_ms + HEARTBEAT_MS
            return Effects(records=(record,), timer_at_ms=self._timer_at_ms)
        if body.member_id == TICKING:
            self._ticks, self._timer_at_ms = True, event.now_ms + HEARTBEAT_MS
        return Effects(records=(record,), replies=(reply,), timer_at_ms=self._timer_at_ms)


def heartbeat_of(group: str, member: str = "m", *, worker: str | None = None) -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(
        group_id=group,
        member_id=MemberId(member),
        member_epoch=MemberEpoch(0),
        instance_id=worker,
        rebalance_timeout_ms=1_000,
    )
