"""Tells listeners in event loops about changes made in another thread.

A triggerer has a thousand listeners in one loop, and a group may change many times in a moment: a loop is woken once
for all its listeners and for all changes since it last told them.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

Listener = Callable[[], None]


class Changes:
    """A hub between one thread that changes things and listeners in any number of event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` in the running loop after each change, soon, and perhaps once for several.

        :returns: a function that ends it, to be called in the same loop
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            told = self._loops.setdefault(loop, _Loop(loop))
        number = told.add(listener)

        def stop() -> None:
            if told.remove(number):
                with self._lock:
                    self._loops.pop(loop, None)

        return stop

    def tell(self) -> None:
        """Something has changed. Called in any thread."""
        with self._lock:
            for told in list(self._loops.values()):
                if not told.wake():
                    del self._loops[told.loop]


class _Loop:
    """The listeners of one loop; ``wake`` is called elsewhere, everything else in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # With the context of whoever listens: by it Airflow knows to whose log a line belongs.
        self._listeners: dict[int, tuple[Listener, contextvars.Context]] = {}
        self._next = 0
        self._woken = False

    def add(self, listener: Listener) -> int:
        self._next += 1
        self._listeners[self._next] = listener, contextvars.copy_context()
        return self._next

    def remove(self, number: int) -> bool:
        """:returns: whether nobody is left to be told"""
        self._listeners.pop(number, None)
        return not self._listeners

    def wake(self) -> bool:
        """:returns: False if the loop is closed"""
        if not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                return False
        return True

    def _tell(self) -> None:
        self._woken = False  # a change from here on wakes the loop again
        for number, (_, context) in self._listeners.items():
            # Each apart: one that raises does not silence the others.
            self.loop.call_soon(self._tell_one, number, context=context)

    def _tell_one(self, number: int) -> None:
        if number in self._listeners:  # else it has been removed in this very turn
            listener, _ = self._listeners[number]
            listener()
