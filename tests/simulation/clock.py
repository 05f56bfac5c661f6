"""Virtual time: it jumps from one timer to the next."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """An action that happens unless it is cancelled before."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    @property
    def cancelled(self) -> bool:
        return self._action is None

    def cancel(self) -> None:
        self._action = None

    def fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Clock:
    """Milliseconds since the beginning of the simulation. Timers for the same time fire in the order in which they were
    set.
    """

    def __init__(self) -> None:
        self.now = 0
        self._due: list[tuple[int, int, Timer]] = []
        self._order = count()

    def after(self, ms: int, action: Callable[[], None]) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._due, (self.now + max(0, ms), next(self._order), timer))
        return timer

    def step(self, *, until: int) -> bool:
        """Fire the next timer, if it is due by then."""
        while self._due and self._due[0][0] <= until:
            at, _, timer = heapq.heappop(self._due)
            if timer.cancelled:
                continue
            self.now = at
            timer.fire()
            return True
        self.now = max(self.now, until)
        return False

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> None:
        """Let this time go by, or less, if the condition holds before."""
        end = self.now + ms
        while not until() and self.step(until=end):
            pass


class LocalClock:
    """A process's monotonic clock: it starts anywhere and runs a little faster or slower than the world's.

    :param drift_ppm: how much faster than the coordinator's, in millionths; 5,000 is half a per cent
    :param offset: what it shows when the world begins
    """

    __slots__ = ("_offset", "_rate", "_world")

    def __init__(self, world: Clock, *, drift_ppm: int, offset: int) -> None:
        self._world = world
        self._rate = 1_000_000 + drift_ppm
        self._offset = offset

    @property
    def now(self) -> int:
        return self._world.now * self._rate // 1_000_000 + self._offset

    def until(self, at: int) -> int:
        """The world's milliseconds until this clock shows ``at``; negative if that is past."""
        return -((at - self._offset) * -1_000_000 // self._rate) - self._world.now
