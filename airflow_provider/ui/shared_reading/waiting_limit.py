"""Limits how many requests wait for the same computation. Each of them holds one of the threads in which the API server
answers all its requests.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST_IN_TURN: Final = 5
"""One computes, and the others wait for its result."""


class BusyError(Exception):
    """Too many wait already."""


class Turns:
    """A lock with a limited queue."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MOST_IN_TURN)
        self._turn = threading.Lock()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """Hold the lock.

        :raises BusyError: immediately, if too many wait
        """
        if not self._places.acquire(blocking=False):
            raise BusyError
        try:
            with self._turn:
                yield
        finally:
            self._places.release()
