"""Limits how many connections to a broker are opened at the same time. A broker has room for 50 connections that it has
not accepted yet (``socket.listen.backlog.size``); for any more, TCP tries again only after a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32
_TOGETHER_S: Final = 2.0
"""How long :meth:`Openings.all_open` waits at most."""


class Openings:
    """Opens connections to one broker, a limited number at a time. Belongs to one event loop."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = self._free = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._all_open: asyncio.Future[None] | None = None

    async def turn(self, open_one: Callable[[], Awaitable[T]]) -> T:
        """Open a connection when it is its turn. If one can't be opened, those that wait for their turn fail, too: the
        broker may be gone for good, and their callers have to look for another one.

        :raises Exception: raised by ``open_one``, for this connection or, while this one waited, for another one
        """
        await self._admitted()
        try:
            return await open_one()
        except Exception as failed:
            while self._waiting:
                _fail(self._waiting.popleft(), failed)
            raise
        finally:
            self._next()

    async def all_open(self) -> None:
        """Wait until no connection is being opened any more, but not for long.

        If many members join a group one by one, it rebalances again and again: each one that joins while the leader
        assigns makes all others join again. So members that have started together should join together.
        """
        if self._free == self._at_once:
            return
        if self._all_open is None:
            self._all_open = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._all_open], timeout=_TOGETHER_S)

    async def _admitted(self) -> None:
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self._next()  # its turn has come at the same moment
            raise

    def _next(self) -> None:
        """Give the place of a finished opening to the one that has waited longest."""
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                return
        self._free += 1
        if self._free == self._at_once and self._all_open is not None:
            self._all_open.set_result(None)
            self._all_open = None


def _fail(waiting: asyncio.Future[None], error: Exception) -> None:
    if not waiting.done():
        waiting.set_exception(error)
