"""Keeps a crowd of memberships from taking the event loop for themselves.

What happens to a whole group happens to all its members together: a thousand answers arrive in the same turn of the
loop, a thousand heartbeats are due in the same millisecond. Each takes a fraction of a millisecond; all together would
keep everything else in the process waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turnstile:
    """Lets so many through in one turn of the event loop, in the order in which they came. Belongs to one loop."""

    def __init__(self, in_a_turn: int) -> None:
        self._in_a_turn = self._free = in_a_turn
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turning = False

    async def enter(self) -> None:
        """Return immediately if there is room in this turn, else in one of the next."""
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
            if not first.done():  # else the one who waited has given up
                first.set_result(None)
                self._free -= 1
        self._turning = self._free < self._in_a_turn
        if self._turning:
            loop.call_soon(self._turn, loop)
