"""A queue and a thread that sends its items, so that an event loop need not wait.

If the receiver hangs, items that no longer fit are dropped, and that is logged once.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

_MOST_WAITING: Final = 10_000
_LAST_WORDS_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ItemWords:
    """The words for the items, for logs.

    :param section: of Airflow's config, where the receiver is configured
    """

    one: str
    many: str
    section: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A function that the thread calls in its turn."""

    call: Callable[[], object]


class Outlet(Generic[T]):
    """Sends items in a thread of its own.

    :param hand_on: sends an item; may block
    """

    def __init__(self, hand_on: Callable[[T], object], words: ItemWords, *, most_waiting: int = _MOST_WAITING) -> None:
        self._hand_on = hand_on
        self._words = words
        self._queue: queue.Queue[T | _Call] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None
        self._dropping = False
        self._complained = False

    def send(self, items: Iterable[T]) -> None:
        """Send these items, in their order."""
        for item in items:
            self._put(item)

    def call(self, function: Callable[[], object]) -> None:
        """Call this in the thread, after all items that were sent before."""
        self._put(_Call(function))

    async def settle(self, within_s: float = _LAST_WORDS_S) -> None:
        """Wait until all earlier items are sent.

        :param within_s: the longest wait, in seconds
        """
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def settled() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                log.debug("the event loop that waited for its %s is closed", self._words.many)

        if self._put(_Call(settled)):
            await asyncio.wait([waiting := asyncio.ensure_future(done.wait())], timeout=within_s)
            waiting.cancel()

    def _put(self, item: T | _Call) -> bool:
        if self._thread is None:
            name = f"cospark-{self._words.many.replace(' ', '-')}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            if not self._dropping:
                waiting, where = self._queue.maxsize, self._words.section
                many = self._words.many.capitalize()
                log.warning("%s are dropped: %d wait to be sent; check [%s] in Airflow's config", many, waiting, where)
            self._dropping = True
            return False
        self._dropping = self._dropping and self._queue.qsize() > self._queue.maxsize // 2
        return True

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            try:
                item.call() if isinstance(item, _Call) else self._hand_on(item)
            except Exception as failed:  # noqa: BLE001  whatever the client raises: nobody's work depends on it
                if not self._complained:
                    log.warning("A %s can't be sent: %s", self._words.one, str(failed) or type(failed).__name__)
                self._complained = True
