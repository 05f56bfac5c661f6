"""Stops a process that shares a database with others, as if its machine stalled."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from demo.processes import KeptProcess, ProcessFailedError

_BETWEEN_TRIES_S: Final = 0.1


@contextmanager
def paused(process: KeptProcess, can_be_written: Callable[[], bool], *, timeout_s: float) -> Iterator[None]:
    """Stop a command and its descendants (SIGSTOP) while they keep nobody from writing, and have them go on afterwards.

    :param can_be_written: whether nobody locks the whole database
    :param timeout_s: how long to try
    :raises ProcessFailedError: if it is locked each time
    """
    give_up = time.monotonic() + timeout_s
    process.pause()
    try:
        while not can_be_written():
            if time.monotonic() > give_up:
                raise ProcessFailedError(f"{process.name} could not be paused: each time, the database was locked")
            process.resume()
            time.sleep(_BETWEEN_TRIES_S)
            process.pause()
        yield
    finally:
        process.resume()
