"""Virtual time: what shall happen when, and nothing in between."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """Something that will happen, unless it is cancelled before."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self._action = None

    def fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Clock:
    """Milliseconds since the beginning of the simulation. Things due at the same time happen in the order of asking."""

    def __init__(self) -> None:
        self.now = 0
        self._due: list[tuple[int, int, Timer]] = []
        self._order = count()

    def after(self, ms: int, action: Callable[[], None]) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._due, (self.now + max(0, ms), next(self._order), timer))
        return timer

    def step(self, *, until: int) -> bool:
        """Let the next thing happen, if it is due by then."""
        if not self._due or self._due[0][0] > until:
            self.now = max(self.now, until)
            return False
        at, _, timer = heapq.heappop(self._due)
        self.now = at
        timer.fire()
        return True
