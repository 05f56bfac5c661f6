"""The way of what is told out of an event loop: a queue, and a thread that hands it on.

Whoever sends never waits. If the other end hangs, what does not fit any more is dropped, and that is said once.
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
class Goods:
    """What is handed on, in words.

    :param section: of Airflow's config, where it is said to whom
    """

    one: str
    many: str
    section: str


@dataclass(frozen=True, slots=True)
class _Call:
    """In its turn, by the thread."""

    call: Callable[[], object]


class Outlet(Generic[T]):
    """:param hand_on: what is done with each; may block"""

    def __init__(self, hand_on: Callable[[T], object], goods: Goods, *, most_waiting: int = _MOST_WAITING) -> None:
        self._hand_on = hand_on
        self._goods = goods
        self._queue: queue.Queue[T | _Call] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None
        self._dropping = False
        self._complained = False

    def send(self, items: Iterable[T]) -> None:
        """Have these handed on, in their order."""
        for item in items:
            self._put(item)

    def call(self, function: Callable[[], object]) -> None:
        """Have this called after all that was sent before."""
        self._put(_Call(function))

    async def settle(self, within_s: float = _LAST_WORDS_S) -> None:
        """Wait until what was sent before is handed on, but not for long."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def settled() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                log.debug("the event loop that waited for its %s is closed", self._goods.many)

        if self._put(_Call(settled)):
            await asyncio.wait([waiting := asyncio.ensure_future(done.wait())], timeout=within_s)
            waiting.cancel()

    def _put(self, item: T | _Call) -> bool:
        if self._thread is None:
            name = f"cospark-{self._goods.many.replace(' ', '-')}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            if not self._dropping:
                waiting, where = self._queue.maxsize, self._goods.section
                many = self._goods.many.capitalize()
                log.warning("%s are dropped: %d wait to be sent, see [%s] in Airflow's config", many, waiting, where)
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
                    log.warning("A %s can't be sent: %s", self._goods.one, str(failed) or type(failed).__name__)
                self._complained = True
