"""A coordinator as its shard sees it, for tests: what must hold after each event is checked after each event."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.events import (
    Effects,
    Event,
    JobsRead,
    RequestArrived,
    RequestId,
    TimerFired,
)
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.coordinator.settings import CONFIG_NAMES, CoordinatorSettings
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody, RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigOperation,
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.declarative.protocol.wire.records import Record, decode_record, encode_record
from airflow_provider.values.model import MemberId, TaskId, Tasks

GROUP: Final = "g"
W1, W2, W3 = map(MemberId, ("W1", "W2", "W3"))
COOPERATIVE: Final = Assignor(name="cooperative", minimum_version=0, maximum_version=2, version=1)
REBALANCE_MS: Final = 60_000


def tasks(*names: str) -> Tasks:
    """``AC0`` is the planner of A, ``AT1`` its task 1: as the proposal names them."""
    return frozenset(TaskId(name[0], -1 if name[1] == "C" else int(name[2:])) for name in names)


def named(task: TaskId) -> str:
    """The other way."""
    return f"{task.job}C0" if task.is_planner else f"{task.job}T{task.index}"


def everything(group: GroupState) -> dict[str, Any]:
    """All that a group's state is."""
    return {slot: getattr(group, slot) for slot in GroupState.__slots__}


class Shard:
    """One coordinator. Beside it, another one replays the bytes of its records.

    :ivar now: in milliseconds
    :ivar log: all records, as bytes
    """

    def __init__(self, settings: CoordinatorSettings | None = None, *, now: int = 0) -> None:
        self.settings = settings or CoordinatorSettings(session_timeout_ms=10_000)
        self.coordinator = Coordinator(self.settings)
        self.replayed = Coordinator(self.settings)
        self.now = now
        self.log: list[tuple[bytes, bytes | None]] = []
        self.written: tuple[Record, ...] = ()
        self.answers: dict[int, ReplyBody] = {}
        self.timer_at: int | None = None
        self._requests = 0
        self._epochs: dict[tuple[str, ...], int] = {}

    @property
    def group(self) -> GroupState:
        return self.coordinator.groups[GROUP]

    # ---- events

    def handle(self, event: Event) -> Effects:
        effects = self.coordinator.handle(event)
        self._take(effects)
        return effects

    def ask(self, body: RequestBody) -> int:
        """:returns: the number of the request"""
        arrived = self._arrived(body)
        self.handle(arrived)
        return arrived.request

    def ask_together(self, *bodies: RequestBody) -> list[int]:
        """Requests that come together; their numbers."""
        arrived = [self._arrived(body) for body in bodies]
        self._take(self.coordinator.handle_all(arrived, self.now))
        return [event.request for event in arrived]

    def _arrived(self, body: RequestBody) -> RequestArrived:
        self._requests += 1
        request = RequestId(self._requests)
        return RequestArrived(now_ms=self.now, request=request, body=body, client_id="c", client_host="h")

    def answer(self, body: RequestBody) -> ReplyBody:
        return self.answers.pop(self.ask(body))

    def read_jobs(self, configured: Tasks, group_id: str = GROUP) -> None:
        self.handle(JobsRead(now_ms=self.now, group_id=group_id, tasks=configured))

    def configure(self, **configuration: int) -> None:
        """What is not named has the default."""
        reply = self.alter({name: configuration.get(attribute) for name, attribute in CONFIG_NAMES.items()})
        assert reply.error_code == 0, reply

    def alter(self, changes: Mapping[str, object], group_id: str = GROUP) -> ConnectGroupAlterConfigsResponse:
        """:param changes: by name; what is None is deleted"""
        configs = tuple(
            AlterableConfig(name=name, config_operation=ConfigOperation.DELETE)
            if value is None
            else AlterableConfig(name=name, value=str(value))
            for name, value in changes.items()
        )
        reply = self.answer(ConnectGroupAlterConfigsRequest(group_id=group_id, configs=configs))
        assert isinstance(reply, ConnectGroupAlterConfigsResponse)
        return reply

    def sleep(self, ms: int) -> None:
        """Let time pass, with each timer at its time."""
        until = self.now + ms
        while self.timer_at is not None and self.timer_at <= until:
            self.now = max(self.now, self.timer_at)
            self.handle(TimerFired(now_ms=self.now))
        self.now = until

    def fail_over(self, kept: Container[int] = ()) -> None:
        """Another coordinator takes over, and knows nothing but the records that compaction has left.

        :param kept: which of the records it has left that later ones replace
        """
        last = {key: index for index, (key, _) in enumerate(self.log)}
        self.coordinator = Coordinator(self.settings)
        for index, (key, value) in enumerate(self.log):
            if index == last[key] or index in kept:
                self.coordinator.replay(decode_record(key, value))
        self._take(self.coordinator.loaded(self.now))

    # ---- requests

    def heartbeat(
        self, member: MemberId, epoch: int, owned: Iterable[TaskId] | None = None, **more: Any
    ) -> ConnectGroupHeartbeatResponse:
        """One that is answered immediately."""
        reply = self.answer(heartbeat(member, epoch, owned, **more))
        assert isinstance(reply, ConnectGroupHeartbeatResponse)
        return reply

    def held(self, member: MemberId, epoch: int, owned: Iterable[TaskId] | None = None) -> int:
        """One that is not."""
        number = self.ask(heartbeat(member, epoch, owned))
        assert number not in self.answers
        return number

    def reply_to(self, number: int) -> ConnectGroupHeartbeatResponse:
        """The reply that a heartbeat has got which was held."""
        reply = self.answers.pop(number)
        assert isinstance(reply, ConnectGroupHeartbeatResponse)
        return reply

    def join(self, member: MemberId, **more: Any) -> ConnectGroupHeartbeatResponse:
        return self.heartbeat(member, 0, (), **whole(**more))

    def leave(self, member: MemberId) -> ConnectGroupHeartbeatResponse:
        return self.heartbeat(member, -1)

    def prepare(self, member: MemberId, epoch: int) -> ConnectGroupPrepareAssignmentResponse:
        reply = self.answer(
            ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id=member, member_epoch=MemberEpoch(epoch))
        )
        assert isinstance(reply, ConnectGroupPrepareAssignmentResponse)
        return reply

    def install(
        self, member: MemberId, epoch: int, group_epoch: int, shares: dict[MemberId, Tasks], **more: Any
    ) -> ConnectGroupInstallAssignmentResponse:
        members = tuple(
            InstalledMember(member_id=one, connectors_and_tasks=units_of(has)) for one, has in shares.items()
        )
        reply = self.answer(
            ConnectGroupInstallAssignmentRequest(
                group_id=GROUP,
                member_id=member,
                member_epoch=MemberEpoch(epoch),
                group_epoch=GroupEpoch(group_epoch),
                **{"members": members} | more,
            )
        )
        assert isinstance(reply, ConnectGroupInstallAssignmentResponse)
        return reply

    def compute(self, member: MemberId, shares: dict[MemberId, Tasks]) -> None:
        """Prepare and install, in order."""
        epoch = self.group.current[member].epoch
        prepared = self.prepare(member, epoch)
        assert prepared.error_code == 0, prepared
        installed = self.install(member, epoch, prepared.group_epoch, shares)
        assert installed.error_code == 0, installed

    # ---- what must hold

    def _take(self, effects: Effects) -> None:
        self.written = effects.records
        self.timer_at = effects.timer_at_ms
        for record in effects.records:
            key, value = encode_record(record)
            self.log.append((key, value))
            self.replayed.replay(decode_record(key, value))
        for reply in effects.replies:
            assert reply.request not in self.answers, f"{reply} is a second one"
            self.answers[reply.request] = reply.body
        self._check()

    def _check(self) -> None:
        for group_id, group in self.coordinator.groups.items():
            assert everything(group) == everything(self.replayed.groups[group_id])
            assert 0 <= group.target.epoch <= group.epoch
            held = [task for current in group.current.values() for task in current.held]
            assert len(held) == len(set(held)) == len(group.holders), f"held twice: {sorted(held)}"
            assert set(group.members) | group.lingering | set(group.last_said) == set(group.current)
            assert all(group.target.names(former) for former in group.last_said)
            assert not group.last_said.keys() & group.members.keys()
            self._never_back((group_id,), group.epoch)
            self._never_back((group_id, "target"), group.target.epoch)
            for member_id in group.members:
                epoch = group.current[member_id].epoch
                assert epoch <= group.target.epoch
                if epoch >= 0:
                    self._never_back((group_id, "member", member_id), epoch)
        for key in list(self._epochs):
            if len(key) == 3 and self._is_elsewhere(*key):
                del self._epochs[key]

    def _is_elsewhere(self, group_id: str, _kind: str, member_id: str) -> bool:
        """Whether it is no member, or away: it can begin anew."""
        group = self.coordinator.groups[group_id]
        return member_id not in group.members or group.current[MemberId(member_id)].epoch < 0

    def _never_back(self, key: tuple[str, ...], epoch: int) -> None:
        assert self._epochs.get(key, 0) <= epoch, f"{key} went back from {self._epochs[key]} to {epoch}"
        self._epochs[key] = epoch


def keep_alive(shard: Shard, *members: MemberId, ms: int) -> None:
    """Let time pass, while these send their heartbeats."""
    for _ in range(ms // 1_000):
        shard.sleep(1_000)
        for member in members:
            current = shard.group.current[member]
            shard.heartbeat(member, current.epoch, current.held, **whole())


def whole(**more: Any) -> dict[str, Any]:
    """What a heartbeat has that says everything."""
    return {"rebalance_timeout_ms": REBALANCE_MS, "client_assignors": (COOPERATIVE,)} | more


def heartbeat(
    member: MemberId, epoch: int, owned: Iterable[TaskId] | None = None, **more: Any
) -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(
        **{
            "group_id": GROUP,
            "member_id": member,
            "member_epoch": MemberEpoch(epoch),
            "connectors_and_tasks": None if owned is None else units_of(frozenset(owned)),
            **more,
        }
    )


def assigned(reply: ConnectGroupHeartbeatResponse) -> Tasks | None:
    return None if reply.assignment is None else tasks_of(reply.assignment.connectors_and_tasks)
