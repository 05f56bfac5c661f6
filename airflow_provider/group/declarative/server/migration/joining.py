"""Requests that wait for the classic protocol: the first member of a group waits until it was checked whether the group
has classic workers; in a group with a bridge, all heartbeats wait until the bridge is in the classic group.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from airflow_provider.group.declarative.coordinator.events import (
    BridgeSaid,
    EpochSpoken,
    Event,
    RequestArrived,
    RequestId,
)
from airflow_provider.group.declarative.protocol.model import JOINING
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.ports import Machine
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

Look = Callable[[str], None]
"""Starts to check whether a group has classic workers."""
Refuse = Callable[[RequestId, KafkaErrorCode, str], None]


class Joining:
    """The requests that wait in one shard, while it is served.

    :param look: called before a member joins a group without members, unless groups have bridges; None: not checked
    :param crossing: the bridges of groups, if they have any
    :param refuse: refuses a request that has waited in vain
    """

    def __init__(self, machine: Machine, *, look: Look | None, crossing: Crossing | None, refuse: Refuse) -> None:
        self._machine = machine
        self._look = look
        self._crossing = crossing
        self._refuse = refuse
        self._waiting: dict[str, list[RequestArrived]] = {}

    @property
    def groups(self) -> Container[str]:
        return self._waiting

    def keeps(self, event: RequestArrived, now_ms: int) -> bool:
        """Whether a request has to wait. If so, it is kept here."""
        if self._crossing is not None:
            # No check: it would find the bridge itself in the classic group, and refuse the member.
            look: Look | None = None if self._crossing.is_open(event.body, now_ms) else self._crossing.open
        else:
            look = self._look if self._begins_a_group(event.body) else None
        if look is not None:
            self._wait(event, look)
        return look is not None

    def let_in(self, seen: Seen, now_ms: int) -> Iterator[Event]:
        """Release the waiting requests of a group that was checked."""
        if seen.group in self._waiting and seen.epoch:
            yield EpochSpoken(now_ms=now_ms, group_id=seen.group, epoch=seen.epoch)
        yield from self._release(seen.group, seen.error, seen.message, now_ms)

    def hear(self, word: BridgeWord, now_ms: int) -> Iterator[Event]:
        """Take what a bridge has said, and release the waiting requests of its group, or refuse them."""
        assert self._crossing is not None
        self._crossing.heard(word)
        yield replace(word, now_ms=now_ms)
        if isinstance(word, BridgeSaid):
            yield from self._release(word.group_id, KafkaErrorCode.NONE, "", now_ms)
        elif word.why:
            yield from self._release(word.group_id, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, word.why, now_ms)
        elif word.group_id in self._waiting:
            self._crossing.open(word.group_id)

    def _begins_a_group(self, body: RequestBody) -> bool:
        return joins(body) and not self._machine.has_members(body.group_id)

    def _wait(self, event: RequestArrived, look: Look) -> None:
        group = event.body.group_id
        if group not in self._waiting:
            self._waiting[group] = []
            look(group)
        self._waiting[group].append(event)

    def _release(self, group: str, error: KafkaErrorCode, message: str, now_ms: int) -> Iterator[Event]:
        """The waiting requests of a group, to be handled. With an error, they are refused instead."""
        for event in self._waiting.pop(group, []):
            if error is KafkaErrorCode.NONE:
                yield replace(event, now_ms=now_ms)
            else:
                self._refuse(event.request, error, message)


def joins(body: RequestBody) -> bool:
    """Whether the request has the epoch with which members join."""
    return isinstance(body, ConnectGroupHeartbeatRequest) and body.member_epoch == JOINING
