"""Tells listeners in event loops about changes made in another thread.

A triggerer has a thousand listeners in one loop, and a group may change many times in a moment: a loop is woken once
for all its listeners and for all changes since the last time; each hears only of what it wants to hear about; and
between some of them the loop has time for everything else.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from airflow_provider.ledger.topic_view import About

Listener = Callable[[], None]

_AT_ONCE: Final = 20
"""So many listeners are called in one turn of the loop: some milliseconds, if each is a membership."""


class Changes:
    """A hub between one thread that changes things and listeners in any number of event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}

    def listen(self, listener: Listener, about: About = About.EVERYTHING) -> Callable[[], None]:
        """Call ``listener`` in the running loop after each change, soon, and perhaps once for several.

        :param about: which changes it wants to hear of
        :returns: a function that ends it, to be called in the same loop
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            listening = self._loops.setdefault(loop, _Loop(loop))
        return functools.partial(self._stop, listening, listening.add(listener, about))

    def _stop(self, listening: _Loop, number: int) -> None:
        if listening.remove(number):
            with self._lock:
                self._loops.pop(listening.loop, None)

    def tell(self, about: About = About.EVERYTHING) -> None:
        """Something has changed. Called in any thread."""
        if about is About.NOTHING:
            return
        with self._lock:
            for listening in list(self._loops.values()):
                if not listening.wake(about):
                    del self._loops[listening.loop]


class _Told(NamedTuple):
    """A listener, with the context in which it was added: by it Airflow knows to whose log a line belongs.

    :ivar about: the value of an :class:`About`, because ``&`` takes a flag twenty times as long
    """

    listener: Listener
    about: int
    context: contextvars.Context


class _Loop:
    """The listeners of one loop; ``wake`` is called elsewhere, everything else in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._listeners: dict[int, _Told] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._news = About.NOTHING
        self._telling: Iterator[int] | None = None

    def add(self, listener: Listener, about: About) -> int:
        self._next += 1
        self._listeners[self._next] = _Told(listener, about.value, contextvars.copy_context())
        return self._next

    def remove(self, number: int) -> bool:
        """:returns: whether no listener is left to be called"""
        self._listeners.pop(number, None)
        return not self._listeners

    def wake(self, about: About) -> bool:
        """:returns: False if the loop is closed"""
        with self._lock:
            woken = self._news is not About.NOTHING  # and has not looked yet
            self._news |= about
        if not woken:
            try:
                self.loop.call_soon_threadsafe(self._begin)
            except RuntimeError:
                return False
        return True

    def _begin(self) -> None:
        """Tell of all changes up to here. Those who hear of earlier ones just now come first."""
        if self._telling is not None:
            return
        with self._lock:
            news, self._news = self._news.value, About.NOTHING
        self._telling = iter([number for number, listener in self._listeners.items() if listener.about & news])
        self._tell_some()

    def _tell_some(self) -> None:
        """Tell the next few; when all know, tell of what has changed meanwhile."""
        assert self._telling is not None
        some = list(islice(self._telling, _AT_ONCE))
        for number in some:
            if number in self._listeners:
                # Each apart: one that raises does not silence the others.
                self.loop.call_soon(self._tell_one, number, context=self._listeners[number].context)
        if len(some) == _AT_ONCE:
            self.loop.call_soon(self._tell_some)
            return
        self._telling = None
        if self._news is not About.NOTHING:
            self.loop.call_soon(self._begin)

    def _tell_one(self, number: int) -> None:
        if number in self._listeners:  # else it has been removed in this very turn
            self._listeners[number].listener()
