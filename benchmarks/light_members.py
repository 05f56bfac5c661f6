"""Members of declarative groups that only exchange requests and replies, without a worker.

They heartbeat as the product's members do (the next one when the last is answered, at most one per interval unless
something has changed), stop and start tasks in no time, and compute assignments when they are chosen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.member.computing import assigned_by, described, group_of, installed
from airflow_provider.group.declarative.protocol.model import JOINING, MemberEpoch
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
)
from airflow_provider.group.declarative.requests.request_channel import KafkaChannel, NoReplyError
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks

_ASSIGNORS: Final = (CooperativeAssignor(),)
_SAID: Final = described(_ASSIGNORS, WorkerFacts(slots=4, returns_ms=600_000))
_REBALANCE_TIMEOUT_MS: Final = 60_000
_PATIENCE_S: Final = 30.0
_REST_S: Final = 0.5


@dataclass(slots=True)
class Heard:
    """What all members have measured since it was cleared.

    :ivar late_ms: how much later than due the coordinator answered each held heartbeat
    :ivar told_ms: how long each other answer took
    :ivar refused: error codes, and unanswered heartbeats: what can cost a member its session
    :ivar assigning_s: how long each run of an assignor took
    :ivar installing_s: from the request for a group's state to the answer that its target is installed
    :ivar failed: assignments that were refused
    """

    late_ms: list[float] = field(default_factory=list)
    told_ms: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    assigning_s: list[float] = field(default_factory=list)
    installing_s: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def clear(self) -> None:
        for each in (self.late_ms, self.told_ms, self.refused, self.assigning_s, self.installing_s, self.failed):
            each.clear()


class LightMember:
    """One member.

    :ivar epoch: its own, as it was last told
    :ivar owned: its tasks
    """

    def __init__(self, channel: KafkaChannel, group: str, name: str, heard: Heard) -> None:
        self.epoch = JOINING
        self.owned: Tasks = NO_TASKS
        self._channel = channel
        self._group = group
        self._id = MemberId(name)
        self._heard = heard
        self._whole = True
        self._says_owned = True
        self._computing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run until it is cancelled."""
        while True:
            sent_s = time.monotonic()
            try:
                reply = await self._channel.ask(self._heartbeat(), timeout_s=_PATIENCE_S)
            except NoReplyError as missing:
                self._heard.refused.append(str(missing))
                self._whole = True
                continue
            assert isinstance(reply, ConnectGroupHeartbeatResponse)
            if reply.error_code not in (KafkaErrorCode.NONE, KafkaErrorCode.COMPUTE_ASSIGNMENT):
                self._begin_again(reply)
                await asyncio.sleep(_REST_S)
                continue
            news, took_ms = self._take(reply), (time.monotonic() - sent_s) * 1000
            if news:
                self._heard.told_ms.append(took_ms)
            else:
                self._heard.late_ms.append(took_ms - reply.heartbeat_interval_ms)
                await asyncio.sleep((reply.heartbeat_interval_ms - took_ms) / 1000)

    def _heartbeat(self) -> ConnectGroupHeartbeatRequest:
        whole, says_owned = self._whole, self._whole or self._says_owned
        self._whole = self._says_owned = False
        return ConnectGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=MemberEpoch(self.epoch),
            instance_id=self._id if whole else None,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS if whole else -1,
            client_assignors=_SAID if whole else None,
            connectors_and_tasks=units_of(self.owned) if says_owned else None,
        )

    def _begin_again(self, reply: ConnectGroupHeartbeatResponse) -> None:
        self._heard.refused.append(f"{KafkaErrorCode(reply.error_code).name}: {reply.error_message}")
        self._whole = True
        if reply.error_code in (KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch, self.owned = JOINING, NO_TASKS

    def _take(self, reply: ConnectGroupHeartbeatResponse) -> bool:
        """Apply the reply; return whether it has to say something new."""
        before = self.epoch, self.owned
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = tasks_of(reply.assignment.connectors_and_tasks)
            self._says_owned = True
        chosen = reply.error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
        if chosen and (self._computing is None or self._computing.done()):
            self._computing = asyncio.ensure_future(self._compute())
        return chosen or reply.assignment is not None or before != (self.epoch, self.owned)

    async def _compute(self) -> None:
        began_s = time.monotonic()
        ask = ConnectGroupPrepareAssignmentRequest(
            group_id=self._group, member_id=self._id, member_epoch=MemberEpoch(self.epoch)
        )
        try:
            prepared = await self._channel.ask(ask, timeout_s=_PATIENCE_S)
            assert isinstance(prepared, ConnectGroupPrepareAssignmentResponse)
            if prepared.error_code:
                self._heard.failed.append(f"prepare: {prepared.error_code} {prepared.error_message}")
                return
            install = await asyncio.to_thread(self._assigned, prepared)
            done = await self._channel.ask(install, timeout_s=_PATIENCE_S)
        except NoReplyError as missing:
            self._heard.failed.append(str(missing))
            return
        assert isinstance(done, ConnectGroupInstallAssignmentResponse)
        if done.error_code:
            self._heard.failed.append(f"install: {done.error_code} {done.error_message}")
        self._heard.installing_s.append(time.monotonic() - began_s)

    def _assigned(self, prepared: ConnectGroupPrepareAssignmentResponse) -> ConnectGroupInstallAssignmentRequest:
        began_s = time.monotonic()
        group = group_of(prepared, computing=self._id, now_ms=wall_ms(), revocation_rank={})
        assignment = assigned_by(_ASSIGNORS, prepared.assignor_name, group)
        self._heard.assigning_s.append(time.monotonic() - began_s)
        return ConnectGroupInstallAssignmentRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=MemberEpoch(self.epoch),
            group_epoch=prepared.group_epoch,
            error=assignment.error,
            members=installed(assignment.members),
            delayed=installed(assignment.delayed),
        )


def settled(members: Iterable[LightMember], tasks: int) -> bool:
    """Whether all members of a group have its last target, and together all tasks.

    :param tasks: how many there are
    """
    group = list(members)
    return len({one.epoch for one in group}) == 1 and sum(len(one.owned) for one in group) == tasks
