"""A virtual clock: it stands still while the event loop is busy, and then jumps to the next timer.

So a test can let an hour pass in no time, with everything in its real order, and a busy machine makes nothing late. It
is for tests marked ``turned_clock``, whose event loop is not woken from outside: no sockets, no processes. While a
thread works for the loop, the clock runs in real time: one that the loop has started, or while
:func:`a_thread_works`.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import pytest
from typing_extensions import TypeVarTuple, Unpack

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_REAL, _WALL = time.monotonic, time.time
_TICK_S: Final = 1e-9
"""Passes in each turn of a loop. Timers may fire so much early: whoever then waits for the rest would wait for ever."""


class _Clock:
    """Replaces all clocks of the process."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def turn(self, seconds: float) -> None:
        self.now_ns += math.ceil(seconds * 1e9)

    def seconds(self) -> float:
        return self.now_ns / 1e9

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        began_ns, wall = self.now_ns, _WALL()
        monkeypatch.setattr(time, "monotonic", self.seconds)
        monkeypatch.setattr(time, "perf_counter", self.seconds)
        monkeypatch.setattr(time, "time", lambda: wall + (self.now_ns - began_ns) / 1e9)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: self.now_ns)


CLOCK = _Clock()


class _Selector(selectors.DefaultSelector):
    """Advances the clock instead of waiting, unless a thread works for the loop.

    :ivar threads: how many threads do
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.threads or timeout is None:
            began = _REAL()
            woken = super().select(timeout)
            CLOCK.turn(_REAL() - began)
            return woken
        woken = super().select(0)
        if not woken:
            CLOCK.turn(max(timeout, _TICK_S))
        return woken


class TurnedLoop(asyncio.SelectorEventLoop):
    """An event loop on that clock."""

    def __init__(self) -> None:
        self._waits = _Selector()
        super().__init__(self._waits)

    def time(self) -> float:
        return CLOCK.seconds()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: Unpack[_Ts]
    ) -> asyncio.Future[_T]:
        running = super().run_in_executor(executor, func, *args)
        self._waits.threads += 1
        running.add_done_callback(self._thread_ended)
        return running

    def _thread_ended(self, _running: object) -> None:
        self._waits.threads -= 1

    async def shutdown_default_executor(self, *limits: Any) -> None:
        self._waits.threads += 1
        try:
            await super().shutdown_default_executor(*limits)  # since Python 3.12 it takes a timeout
        finally:
            self._waits.threads -= 1


@contextmanager
def a_thread_works() -> Iterator[None]:
    """Of a thread that the loop has not started: time that it takes is not skipped."""
    waits = _turned()._waits
    waits.threads += 1
    try:
        yield
    finally:
        waits.threads -= 1


def _turned() -> TurnedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnedLoop), "mark the test with turned_clock"
    return loop


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """As :func:`asyncio.run`, for tests that run a new loop for each example."""
    loop = TurnedLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def time_passes(seconds: float) -> None:
    """Let ``seconds`` pass, with all that happens in them."""
    _turned()
    await asyncio.sleep(seconds)
