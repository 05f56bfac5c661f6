"""Connections whose sockets are closed for certain.

The end of TLS takes the broker's word, for which asyncio waits 30 s: the socket to a broker that hangs, or that the
network has lost, would outlive the event loop. And aiokafka closes connections by itself, too: one that the broker
refuses has no owner yet who could wait until its socket is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason

_PATIENCE_S: Final = 2.0


class Ends:
    """The connections of one event loop that are being closed, whoever has begun it."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Future[None], asyncio.WriteTransport] = {}

    def begin(self, closed: asyncio.Future[None], transport: asyncio.WriteTransport) -> None:
        """:param closed: is done when the socket is closed"""
        if not closed.done():
            self._under_way[closed] = transport
            closed.add_done_callback(self._under_way.pop)

    async def all_closed(self) -> None:
        """Give the brokers a moment to agree, then go without a word."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)
        for transport in self._under_way.values():
            transport.abort()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    """Enters itself there when its socket begins to be closed.

    :param ends: of its event loop
    :param arguments: as aiokafka's connection takes them
    """

    def __init__(self, ends: Ends, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._ends = ends

    def close(self, reason: CloseReason | None = None, exc: BaseException | None = None) -> asyncio.Future[None]:
        writer = self._writer
        closed: asyncio.Future[None] = super().close(reason, exc)
        if writer is not None:
            self._ends.begin(closed, writer.transport)
        return closed
