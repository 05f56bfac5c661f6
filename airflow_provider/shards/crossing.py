"""Between a shard and the bridges of its groups: who may be answered, and what the bridges have to know."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Final

from airflow_provider.coordinator.events import BridgeAsks, BridgeSaid, ToBridge
from airflow_provider.declarative.model import JOINING
from airflow_provider.declarative.wire.apis import RequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest
from airflow_provider.shards.bridges import Bridges, BridgeWord, PutWord
from airflow_provider.shards.machine import Machine

_LEAST_LEASE_MS: Final = 1_000
"""Who is answered with less than that hears of it too late."""


class Crossing:
    """Of one shard, as long as it is served.

    Until the bridge of a group is in its classic group, and while its lease is nearly over, no heartbeat of the group
    is answered: its members live on what they were granted before.
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
        """:param groups: those that have members"""
        for group in groups:
            self.open(group)

    def open(self, group: str) -> None:
        self._opened.add(group)
        self._told.pop(group, None)
        self._bridges.open(group, self._machine.claims(group), self._say)

    def close(self) -> None:
        """What a bridge says that ends late is not heard: the next one may be there by then."""
        self._closed = True
        for group in self._opened:
            self._bridges.close(group, self._say)

    def _say(self, word: BridgeWord) -> None:
        if not self._closed:
            self._put(word)

    def is_open(self, body: RequestBody, now_ms: int) -> bool:
        """Whether a request can be handled now. Who leaves needs no lease, nor does who computes."""
        if not isinstance(body, ConnectGroupHeartbeatRequest) or body.member_epoch < JOINING:
            return True
        return self._leases.get(body.group_id, 0) >= now_ms + _LEAST_LEASE_MS

    def heard(self, word: BridgeWord) -> None:
        if isinstance(word, BridgeSaid):
            self._leases[word.group_id] = word.lease_until_ms
        else:
            self._leases.pop(word.group_id, None)

    def tell(self, waiting: Container[str]) -> None:
        """What is committed, the bridges may go by.

        :param waiting: the groups that somebody waits to join until their bridges are there: those must not leave
        """
        for group in self._opened:
            asked = self._bridges.asks(group)
            answer = self._machine.to_bridge(group, asked.tasks)
            if group in waiting:
                answer = replace(answer, members=max(1, answer.members))
            if self._told.get(group) != (asked, answer):
                self._told[group] = asked, answer
                self._bridges.tell(group, asked, answer)
