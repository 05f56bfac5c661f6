"""How a worker in the foreground ends: after one signal it leaves its group, after a second one it ends immediately.

This does not use the loop's ``add_signal_handler``. There, a signal is a byte in a pipe, and each
``call_soon_threadsafe`` writes to this pipe, too. While the loop is busy, fewer than 300 such bytes fill the pipe, and
the signal is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

log = logging.getLogger(__name__)

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)

_ONE_SIGNAL_S: Final = 0.5
"""Signals within this time count as one: ``timeout`` and terminals signal both a process and its process group."""

_SIGNALLED: Final = 128
"""A shell adds the signal's number to this for the exit status."""


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Restore the previous handlers of these signals at the end."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_when_signalled(leave: Callable[[str], None]) -> None:
    """The first signal calls ``leave`` on the running loop, with the reason; a later one ends the process.

    Only in the main thread. Python may call a handler there between any two bytecodes, so it takes no lock and does not
    log.
    """
    loop = asyncio.get_running_loop()
    first: list[float] = []

    def begin(name: str) -> None:
        log.info("%s: the worker stops its tasks and leaves the group; signal again to end it immediately", name)
        leave(f"signal {name}")

    def on_signal(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if not first:
            first.append(time.monotonic())
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the worker with it
                loop.call_soon_threadsafe(begin, name)
        elif time.monotonic() - first[0] > _ONE_SIGNAL_S:
            os.write(2, f"{name} again: the worker ends immediately, without leaving the group\n".encode())
            os._exit(_SIGNALLED + number)  # attached tasks end with the process

    for number in _NUMBERS:
        signal.signal(number, on_signal)
