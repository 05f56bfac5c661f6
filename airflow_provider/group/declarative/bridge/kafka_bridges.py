"""The bridges of a coordinator process, on an event loop of their own."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.declarative.bridge.bridge import Bridge, why_lost
from airflow_provider.group.declarative.coordinator.events import (
    BridgeAsks,
    BridgeClaims,
    BridgeLost,
    BridgeSaid,
    ToBridge,
)
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord, PutWord
from airflow_provider.group.live.shared import shared_topics, shared_transport
from airflow_provider.kafka.clock import now_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.event_loops.own_loop import OwnLoop
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.trouble import Trouble
from airflow_provider.values.group_protocol.bridge import BRIDGE, bridge_url
from airflow_provider.values.model import Epoch

log: Final = logging.getLogger(__name__)

_TAKEOVER_MS: Final = 60_000
"""How much longer than a member's session the bridge's session is: the time for another coordinator to take over, so
that members are still granted whole sessions.
"""
_REST_S: Final = 1.0
_CLOSE_S: Final = 5.0


@dataclass(slots=True)
class _Open:
    """An open bridge.

    :param bridge: None until it has read the group's topics
    """

    put: PutWord
    bridge: Bridge | None = None
    task: asyncio.Task[None] | None = field(default=None)


class KafkaBridges:
    """All bridges of one process (:class:`~airflow_provider.group.declarative.server.migration.bridges.Bridges`). Their
    event loop starts with the first one.

    :param settings: the connection
    :param coordinator: the coordinator's settings, for the session that members are granted
    """

    def __init__(self, settings: KafkaSettings, coordinator: CoordinatorSettings) -> None:
        self._settings = settings
        self._session_ms = coordinator.session_timeout_ms + _TAKEOVER_MS
        self._interval_ms = coordinator.heartbeat_interval_ms
        self._loop = OwnLoop("cospark-bridges")
        self._groups: dict[str, _Open] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, Trouble] = {}

    # ---- any thread

    def open(self, group: str, claims: BridgeClaims, put: PutWord) -> None:
        self._loop.call(lambda: self._open(group, claims, put))

    def asks(self, group: str) -> BridgeAsks:
        opened = self._groups.get(group)
        return BridgeAsks() if opened is None or opened.bridge is None else opened.bridge.asks

    def tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        self._loop.call(lambda: self._tell(group, asked, answer))

    def close(self, group: str, put: PutWord) -> None:
        try:
            self._loop.finish(lambda: self._close(group, put), _CLOSE_S)
        except TimeoutError:
            log.warning("group %s: its bridge has not ended yet", group)

    def close_all(self) -> None:
        """End all bridges, and open no more. Returns when they have ended, or after 5 s."""
        try:
            self._loop.close(self._close_all, _CLOSE_S)
        except TimeoutError:
            log.warning("bridges to classic groups have not ended yet")

    # ---- its loop

    def _open(self, group: str, claims: BridgeClaims, put: PutWord) -> None:
        before = self._groups.get(group)
        if before is not None and before.put == put:
            return
        opened = self._groups[group] = _Open(put)
        opened.task = asyncio.ensure_future(self._take_over(group, claims, opened, before))

    def _tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        opened = self._groups.get(group)
        if opened is not None and opened.bridge is not None:
            opened.bridge.hear(asked, answer)

    async def _take_over(self, group: str, claims: BridgeClaims, opened: _Open, before: _Open | None) -> None:
        """Hold the bridge when its former instance in this process has ended. There is one if the thread that opened it
        is slow to end.
        """
        if before is not None:
            await self._end(before)
        await self._hold(group, claims, opened)

    async def _hold(self, group: str, claims: BridgeClaims, opened: _Open) -> None:
        why = ""
        try:
            why = await self._drive(group, claims, opened)
        except (TransportError, TopicError, TimeoutError, asyncio.TimeoutError) as failed:
            why = str(failed) or type(failed).__name__
        except Exception as bug:
            log.exception("group %s: its bridge ends because of a fault of this program", group)
            why = f"a fault of this program: {type(bug).__name__}: {bug}"
        if why:
            if self._troubles.setdefault(group, Trouble()).is_news(why):
                log.warning("group %s has no bridge to the classic protocol: %s; trying again", group, why)
            await asyncio.sleep(_REST_S)
        if self._groups.get(group) is opened:
            del self._groups[group]
        opened.put(BridgeLost(now_ms=now_ms(), group_id=group, why=why))

    async def _drive(self, group: str, claims: BridgeClaims, opened: _Open) -> str:
        """Run the bridge until it has ended.

        :returns: why it is not in the group any more; empty: it has left
        """
        settings = MemberSettings(
            group_id=group,
            worker=BRIDGE,
            url=bridge_url(1, Epoch(0)),
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._interval_ms,
            rebalance_timeout_ms=self._session_ms,
        )
        async with (
            shared_transport(self._settings) as transport,
            shared_topics(self._settings, group, WORKER) as topics,
        ):
            opened.bridge = Bridge(settings, transport, topics, claims, lambda word: self._say(group, word, opened.put))
            return why_lost(await opened.bridge.run())

    def _say(self, group: str, word: BridgeWord, put: PutWord) -> None:
        if isinstance(word, BridgeSaid) and (trouble := self._troubles.pop(group, None)) is not None:
            log.info("group %s has a bridge to the classic protocol again, after %.1f s", group, trouble.over())
        put(word)

    async def _close(self, group: str, put: PutWord) -> None:
        opened = self._groups.get(group)
        if opened is not None and opened.put == put:
            del self._groups[group]
            await self._end(opened)

    async def _close_all(self) -> None:
        opened, self._groups = self._groups.values(), {}
        await asyncio.gather(*map(self._end, opened), *self._ending, return_exceptions=True)

    async def _end(self, opened: _Open) -> None:
        if opened.task is not None:
            self._ending.add(opened.task)
            opened.task.add_done_callback(self._ending.discard)
            opened.task.cancel()
            await asyncio.gather(opened.task, return_exceptions=True)
