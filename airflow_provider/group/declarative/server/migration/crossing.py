"""Connects a shard with the bridges of its groups: decides which requests may be handled, and informs the bridges."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from airflow_provider.group.declarative.coordinator.events import BridgeAsks, BridgeSaid, ToBridge
from airflow_provider.group.declarative.protocol.model import JOINING
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.declarative.server.migration.bridges import Bridges, BridgeWord, PutWord
from airflow_provider.group.declarative.server.ports import Machine

_LEAST_LEASE_MS: Final = 1_000
"""The shortest lease of a bridge with which heartbeats are answered: a shorter session would be over too soon."""


class Crossing:
    """The bridges of one shard, while it is served.

    No heartbeat of a group is answered until its bridge is in the classic group, and while the bridge's lease is nearly
    over: the members rely on the sessions that they were granted before.
    """

    def __init__(self, machine: Machine, bridges: Bridges, put: PutWord) -> None:
        self._machine = machine
        self._bridges = bridges
        self._put = put
        self._leases: dict[str, int] = {}
        self._opened: set[str] = set()
        self._told: dict[str, tuple[BridgeAsks, ToBridge]] = {}
        self._closed = False

    def begin(self, groups: Iterable[str]) -> None:
        """Open the bridges of these groups, which have members."""
        for group in groups:
            self.open(group)

    def open(self, group: str) -> None:
        self._opened.add(group)
        self._told.pop(group, None)
        self._bridges.open(group, self._machine.claims(group), self._say)

    def close(self) -> None:
        """Close all bridges. What they say after that is ignored, because the next holder may be there by then."""
        self._closed = True
        for group in self._opened:
            self._bridges.close(group, self._say)

    def _say(self, word: BridgeWord) -> None:
        if not self._closed:
            self._put(word)

    def is_open(self, body: RequestBody, now_ms: int) -> bool:
        """Whether a request can be handled now. Members that leave or compute need no lease."""
        if not isinstance(body, ConnectGroupHeartbeatRequest) or body.member_epoch < JOINING:
            return True
        return self._leases.get(body.group_id, 0) >= now_ms + _LEAST_LEASE_MS

    def heard(self, word: BridgeWord) -> None:
        """Note the lease of a bridge."""
        if isinstance(word, BridgeSaid):
            self._leases[word.group_id] = word.lease_until_ms
        else:
            self._leases.pop(word.group_id, None)

    def tell(self, waiting: Container[str]) -> None:
        """Tell the bridges the present state, which is committed.

        :param waiting: groups that members wait to join until the bridge is there. These bridges must not leave
        """
        for group in self._opened:
            asked = self._bridges.asks(group)
            answer = self._machine.to_bridge(group, asked.tasks)
            if group in waiting:
                answer = replace(answer, members=max(1, answer.members))
            if self._told.get(group) != (asked, answer):
                self._told[group] = asked, answer
                self._bridges.tell(group, asked, answer)
