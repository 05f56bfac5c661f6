"""Makes sure that the sockets of connections are closed before the event loop ends.

To end TLS, asyncio waits 30 s for the broker. So a socket to a broker that hangs or can't be reached any more would
outlive the event loop. aiokafka also closes connections by itself, for example one that the broker refuses; then there
is no owner yet that could wait for it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason

_PATIENCE_S: Final = 2.0


class Ends:
    """The connections of one event loop that are being closed, by aiokafka or by this package."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Future[None], asyncio.WriteTransport] = {}

    def begin(self, closed: asyncio.Future[None], transport: asyncio.WriteTransport) -> None:
        """Add a connection that is being closed.

        :param closed: done when the socket is closed
        """
        if not closed.done():
            self._under_way[closed] = transport
            closed.add_done_callback(self._under_way.pop)

    async def all_closed(self) -> None:
        """Wait until all are closed. After 2 s, abort those that are still open."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)
        for transport in self._under_way.values():
            transport.abort()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_PATIENCE_S)


class Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    """A connection of aiokafka that adds itself to ``ends`` when it is closed.

    :param ends: that of its event loop
    :param arguments: those of aiokafka's connection
    """

    def __init__(self, ends: Ends, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._ends = ends

    def close(self, reason: CloseReason | None = None, exc: BaseException | None = None) -> asyncio.Future[None]:
        """Close the connection. The result is done when its socket is closed."""
        writer = self._writer
        closed: asyncio.Future[None] = super().close(reason, exc)
        if writer is not None:
            self._ends.begin(closed, writer.transport)
        return closed
