"""The way of metric values out of an event loop: a queue, and a thread that hands them on.

Whoever sends never waits. If the other end hangs, what does not fit any more is dropped, and that is said once.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Final

from airflow_provider.metrics.sample import Sample

log = logging.getLogger(__name__)

_MOST_WAITING: Final = 10_000
_LAST_WORDS_S: Final = 2.0


class Outlet:
    """:param hand_on: what is done with a sample; may block"""

    def __init__(self, hand_on: Callable[[Sample], None], *, most_waiting: int = _MOST_WAITING) -> None:
        self._hand_on = hand_on
        self._queue: queue.Queue[Sample | Callable[[], None]] = queue.Queue(most_waiting)
        self._thread: threading.Thread | None = None
        self._dropping = False
        self._complained = False

    def send(self, samples: Iterable[Sample]) -> None:
        """Have these handed on, in their order."""
        for sample in samples:
            self._put(sample)

    async def settle(self) -> None:
        """Wait until what was sent before is handed on, but not for long."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def settled() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:
                log.debug("the event loop that waited for its metrics is closed")

        if self._put(settled):
            await asyncio.wait([waiting := asyncio.ensure_future(done.wait())], timeout=_LAST_WORDS_S)
            waiting.cancel()

    def _put(self, item: Sample | Callable[[], None]) -> bool:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cospark-metrics", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            if not self._dropping:
                waiting = self._queue.maxsize
                log.warning("Metrics are dropped: %d wait to be sent, see [metrics] in Airflow's config", waiting)
            self._dropping = True
            return False
        self._dropping = self._dropping and self._queue.qsize() > self._queue.maxsize // 2
        return True

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            try:
                self._hand_on(item) if isinstance(item, Sample) else item()
            except Exception as failed:  # noqa: BLE001  whatever Airflow's client raises: it is only a metric
                if not self._complained:
                    log.warning("A metric can't be sent: %s", str(failed) or type(failed).__name__)
                self._complained = True
