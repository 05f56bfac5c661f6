"""So many connections to a broker are opened together, and not a thousand: it has room for 50 that it has not accepted
yet (``socket.listen.backlog.size``), and what finds no room is tried again by TCP a second later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 32
_TOGETHER_S: Final = 2.0
"""Who has a connection waits so long, at most, for those who are about to have one."""


class Openings:
    """The connections to one broker that are being opened. Belongs to one event loop."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = self._free = at_once
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._all_open: asyncio.Future[None] | None = None

    async def turn(self, open_one: Callable[[], Awaitable[T]]) -> T:
        """Open a connection when it is its turn. If one can't be opened, those who wait for theirs hear that, too: the
        broker may have gone for good, and they have to look for another one.

        :raises Exception: what ``open_one`` raised for this or, while it waited, for another
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
        """Wait until no connection is being opened any more, or for a while.

        A crowd that joins a group one by one keeps it rebalancing: each who comes while the leader assigns has all the
        others join again. Those who have begun together had better join together.
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
                self._next()  # its turn came just then
            raise

    def _next(self) -> None:
        """Somebody is done: the one who waits longest takes the place."""
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
