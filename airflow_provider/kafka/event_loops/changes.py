"""Tells listeners in event loops about changes that are made in another thread.

A triggerer has a thousand listeners in one loop, and a group may change many times in a moment. So a loop is woken once
for all its listeners and for all changes since the last time. Each listener is only called for changes that it is
interested in. They are called in batches, with time for other work of the loop in between.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from airflow_provider.state.views.topic_view import About

Listener = Callable[[], None]

_AT_ONCE: Final = 20
"""How many listeners are called in one turn of the loop. If each is a membership, this takes a few milliseconds."""


class Changes:
    """Connects one thread that makes changes to listeners in any number of event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}

    def listen(self, listener: Listener, about: About = About.EVERYTHING) -> Callable[[], None]:
        """Call ``listener`` in the running loop soon after each change, perhaps once for several changes.

        :param about: the kinds of changes for which it is called
        :returns: a function that ends this, to be called in the same loop
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
        """Tell the listeners of a change. May be called in any thread."""
        if about is About.NOTHING:
            return
        with self._lock:
            for listening in list(self._loops.values()):
                if not listening.wake(about):
                    del self._loops[listening.loop]


class _Registration(NamedTuple):
    """A listener, with the context in which it was added. Airflow uses the context to find the log of a line.

    :ivar about: the value of an :class:`About`, because ``&`` is twenty times as fast on integers as on flags
    """

    listener: Listener
    about: int
    context: contextvars.Context


class _Loop:
    """The listeners of one loop. :meth:`wake` may be called in any thread, everything else in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._listeners: dict[int, _Registration] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._news = About.NOTHING
        self._telling: Iterator[int] | None = None

    def add(self, listener: Listener, about: About) -> int:
        self._next += 1
        self._listeners[self._next] = _Registration(listener, about.value, contextvars.copy_context())
        return self._next

    def remove(self, number: int) -> bool:
        """Remove a listener.

        :returns: whether none is left
        """
        self._listeners.pop(number, None)
        return not self._listeners

    def wake(self, about: About) -> bool:
        """Wake the loop, unless it was woken already and has not looked yet.

        :returns: False if the loop is closed
        """
        with self._lock:
            woken = self._news is not About.NOTHING
            self._news |= about
        if not woken:
            try:
                self.loop.call_soon_threadsafe(self._begin)
            except RuntimeError:
                return False
        return True

    def _begin(self) -> None:
        """Tell the listeners of all changes so far. If earlier changes are still being told, those come first."""
        if self._telling is not None:
            return
        with self._lock:
            news, self._news = self._news.value, About.NOTHING
        self._telling = iter([number for number, listener in self._listeners.items() if listener.about & news])
        self._tell_some()

    def _tell_some(self) -> None:
        """Call the next few listeners. After the last one, begin again if something has changed in the meantime."""
        assert self._telling is not None
        some = list(islice(self._telling, _AT_ONCE))
        for number in some:
            if number in self._listeners:
                # One call for each, so that an exception does not affect the others.
                self.loop.call_soon(self._tell_one, number, context=self._listeners[number].context)
        if len(some) == _AT_ONCE:
            self.loop.call_soon(self._tell_some)
            return
        self._telling = None
        if self._news is not About.NOTHING:
            self.loop.call_soon(self._begin)

    def _tell_one(self, number: int) -> None:
        if number in self._listeners:  # otherwise it was removed in this turn of the loop
            self._listeners[number].listener()
