"""Who works on the same thing does so in turn, and few wait: each holds one of the threads in which the API server
answers whatever it is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST_IN_TURN: Final = 5
"""One works, and the others wait for what it has made."""


class BusyError(Exception):
    """So many wait already that nobody else may."""


class Turns:
    """One at a time has its turn."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MOST_IN_TURN)
        self._turn = threading.Lock()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """:raises BusyError: at once, if too many wait for their turn"""
        if not self._places.acquire(blocking=False):
            raise BusyError
        try:
            with self._turn:
                yield
        finally:
            self._places.release()
