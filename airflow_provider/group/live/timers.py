"""Timers on event loops, by the clock that measures leases; a loop's own clock stops while the host is suspended.

After a suspension, tasks whose lease has ended are still running. They have to be stopped immediately, and not after
the rest of the time on the loop's clock.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from airflow_provider.kafka.clock import MEASURE

_LOOK_S: Final = 0.25
"""How often the clocks are compared, in seconds, so how soon a suspension is noticed after it. All timers of a loop
share one comparison.
"""

_SUSPENDED_S: Final = 0.01
"""In seconds. The two clocks are not read at exactly the same moment; if their difference grows by more than this, the
host was suspended.
"""

_LOOKS: Final = 3


class Timer:
    """Calls once, at a time of :func:`~airflow_provider.kafka.clock.now_ms` or soon after it, never before."""

    __slots__ = ("_at_s", "_callback", "_context", "_handle", "_timers")

    def __init__(self, timers: _Timers, at_ms: int, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._at_s = at_ms / 1000
        self._callback = callback
        self._context = contextvars.copy_context()
        self._handle = self._armed()

    def _armed(self) -> asyncio.TimerHandle:
        # By a constant difference of the clocks, so that what is due at the same time is called in the same turn.
        due_s = self._at_s - self._timers.ahead_s
        return asyncio.get_running_loop().call_at(due_s, self._due, context=self._context)

    def rearm(self) -> None:
        """Arm again, as the difference of the clocks has grown."""
        self._handle.cancel()
        self._handle = self._armed()

    def cancel(self) -> None:
        self._handle.cancel()
        self._timers.armed.discard(self)

    def _due(self) -> None:
        left_s = self._at_s - _now_s()
        if left_s > 0:
            self._handle = asyncio.get_running_loop().call_later(left_s, self._due)
            return
        self._timers.armed.discard(self)
        self._callback()


class _Timers:
    """The timers of one loop.

    :ivar ahead_s: by how many seconds the clock is ahead of the loop's
    """

    def __init__(self) -> None:
        self.armed: set[Timer] = set()
        self.ahead_s = _ahead_s()
        self._looking = False

    def add(self, timer: Timer) -> None:
        self.armed.add(timer)
        if not self._looking:
            self._look()

    def _look(self) -> None:
        """Compare the clocks, and arm all timers again if the host was suspended."""
        ahead_s = _ahead_s()
        suspended = ahead_s > self.ahead_s + _SUSPENDED_S
        if suspended or ahead_s < self.ahead_s:  # a smaller difference was measured more precisely
            self.ahead_s = ahead_s
        if suspended:
            for timer in self.armed:
                timer.rearm()
        self._looking = bool(self.armed)
        if self._looking:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)


_TIMERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Timers] = WeakKeyDictionary()


def call_at(at_ms: int, callback: Callable[[], object]) -> Timer:
    """Call ``callback`` on the running loop when :func:`~airflow_provider.kafka.clock.now_ms` is ``at_ms``."""
    loop = asyncio.get_running_loop()
    timers = _TIMERS.get(loop)
    if timers is None:
        timers = _TIMERS[loop] = _Timers()
    timer = Timer(timers, at_ms, callback)
    timers.add(timer)
    return timer


def _now_s() -> float:
    return time.clock_gettime_ns(MEASURE) / 1e9


def _ahead_s() -> float:
    """By how many seconds the clock is ahead of the loop's.

    If the process is held up between the two readings, the difference is too large. So this is the smallest of a few.
    """
    loop = asyncio.get_running_loop()
    seen = []
    for _ in range(_LOOKS):
        loop_s = loop.time()  # first: read too late, it would make timers late
        seen.append(_now_s() - loop_s)
    return min(seen)
