"""A coordinator's machine that echoes: for those who look at what is around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.coordinator.events import Effects, Event, JobsRead, Reply, RequestArrived, TimerFired
from airflow_provider.declarative.model import GroupEpoch, MemberEpoch
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest, ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.keys import ConnectWorkerGroupMetadataKey
from airflow_provider.declarative.wire.metadata_values import ConnectWorkerGroupMetadataValue
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import MemberId

RAISES = MemberId("raises")
"""A member whose heartbeats the machine fails at."""
HELD = MemberId("held")
"""A member whose heartbeats are answered when the timer fires."""
HEARTBEAT_MS = 1_000


@dataclass
class EchoGroup:
    epoch: int = 0
    members: set[str] = field(default_factory=set)
    tasks: int = -1


class EchoMachine:
    """Counts a group's heartbeats, in its records. It answers with the number so far, and with that of its tasks."""

    def __init__(self) -> None:
        self.groups: dict[str, EchoGroup] = {}
        self._held: list[Reply] = []
        self._timer_at_ms: int | None = None

    def replay(self, record: Record) -> None:
        if not isinstance(record.value, ConnectWorkerGroupMetadataValue):
            return  # of a real machine, which has served the shard before
        group = self.groups.setdefault(record.key.group_id, EchoGroup())
        group.epoch = record.value.epoch
        group.members.add("somebody")

    def loaded(self, now_ms: int) -> Effects:
        return Effects()

    def handle(self, event: Event) -> Effects:
        if isinstance(event, JobsRead):
            self.groups[event.group_id].tasks = len(event.tasks)
        if isinstance(event, TimerFired):
            held, self._held, self._timer_at_ms = self._held, [], None
            return Effects(replies=tuple(held))
        return self._ask(event) if isinstance(event, RequestArrived) else Effects(timer_at_ms=self._timer_at_ms)

    def _ask(self, event: RequestArrived) -> Effects:
        body = event.body
        assert isinstance(body, ConnectGroupHeartbeatRequest)
        if body.member_id == RAISES:
            raise RuntimeError("a fault of the machine")
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
        return Effects(records=(record,), replies=(reply,), timer_at_ms=self._timer_at_ms)


def heartbeat_of(group: str, member: str = "m") -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(
        group_id=group, member_id=MemberId(member), member_epoch=MemberEpoch(0), rebalance_timeout_ms=1_000
    )
