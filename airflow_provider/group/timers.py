"""Timers by the clock that leases are measured by, on event loops, whose own stands still while the host is suspended.

A host that wakes up finds the tasks of a lease that is over still running: they must be stopped now, and not after what
is left on the loop's clock.
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
"""How often the clocks are compared, and so how soon after it woke up a host's suspension is noticed. All timers of a
loop share one look.
"""

_SUSPENDED_S: Final = 0.01
"""The two clocks are not read at exactly the same moment. If their difference grows by more than this, the host was
suspended.
"""

_LOOKS: Final = 3


class Timer:
    """Calls once, at a time of :func:`~airflow_provider.kafka.clock.now_ms` or soon after, never before."""

    __slots__ = ("_at_s", "_callback", "_context", "_handle", "_timers")

    def __init__(self, timers: _Timers, at_ms: int, callback: Callable[[], object]) -> None:
        self._timers = timers
        self._at_s = at_ms / 1000
        self._callback = callback
        self._context = contextvars.copy_context()
        self._handle = self._armed()

    def _armed(self) -> asyncio.TimerHandle:
        # By a difference of the clocks that stays the same: what is due at the same time is called in the same turn.
        due_s = self._at_s - self._timers.ahead_s
        return asyncio.get_running_loop().call_at(due_s, self._due, context=self._context)

    def rearm(self) -> None:
        """The clocks differ by more than before."""
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
    """Those of one loop.

    :ivar ahead_s: by so much the clock is ahead of the loop's
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
        """Arm all anew if the host was suspended."""
        ahead_s = _ahead_s()
        suspended = ahead_s > self.ahead_s + _SUSPENDED_S
        if suspended or ahead_s < self.ahead_s:  # the smaller it is, the closer together the clocks were read
            self.ahead_s = ahead_s
        if suspended:
            for timer in self.armed:
                timer.rearm()
        self._looking = bool(self.armed)
        if self._looking:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)


_TIMERS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Timers] = WeakKeyDictionary()


def call_at(at_ms: int, callback: Callable[[], object]) -> Timer:
    """Have the running loop call ``callback`` when :func:`~airflow_provider.kafka.clock.now_ms` is ``at_ms``."""
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
    """How far the clock is ahead of the loop's. A process that is held up between both looks sees too much: so it is
    measured a few times, and the smallest difference is the best one.
    """
    loop = asyncio.get_running_loop()
    seen = []
    for _ in range(_LOOKS):
        loop_s = loop.time()  # first: read late, it would have timers called late
        seen.append(_now_s() - loop_s)
    return min(seen)
