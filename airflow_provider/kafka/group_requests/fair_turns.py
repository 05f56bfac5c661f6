"""Keeps many memberships from blocking the event loop.

Many events concern all members of a group at the same time: a thousand answers arrive in the same turn of the loop, or
a thousand heartbeats are due in the same millisecond. Each takes a fraction of a millisecond, but together they would
block everything else in the process.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turnstile:
    """Lets a limited number of callers through in each turn of the event loop, in their order. Belongs to one loop.

    :param in_a_turn: how many in a turn
    """

    def __init__(self, in_a_turn: int) -> None:
        self._in_a_turn = self._free = in_a_turn
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False

    async def enter(self) -> None:
        """Return immediately if there is room in this turn, otherwise in one of the next."""
        loop = asyncio.get_running_loop()
        if not self._turning:
            self._turning = True
            loop.call_soon(self._turn, loop)
        if self._free and not self._waiting:
            self._free -= 1
            return
        mine = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free = self._in_a_turn
        while self._free and self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # otherwise its caller has given up
                first.set_result(None)
                self._free -= 1
        self._turning = self._free < self._in_a_turn
        if self._turning:
            loop.call_soon(self._turn, loop)
