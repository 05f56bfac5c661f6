"""An event loop in a thread of its own, for callers in threads without a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the builtin one only since Python 3.11
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class OwnLoop:
    """An event loop in a thread. It starts with the first call, and ends for good when it is closed. All methods may be
    called in any thread.

    :param name: the name of the thread
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def has_begun(self) -> bool:
        """Whether the loop has started, and is not closed."""
        return self._loop is not None

    def call(self, do: Callable[[], object]) -> None:
        """Call a function soon in the loop. Does nothing when the loop is closed."""
        with self._lock:
            if not self._closed:
                self._begun().call_soon_threadsafe(do)

    def finish(self, work: Work, timeout_s: float) -> None:
        """Run a coroutine in the loop, and wait until it has ended. If the loop has not started, do nothing.

        :raises TimeoutError: the coroutine takes longer; it goes on
        """
        with self._lock:
            finishing = None if self._loop is None else asyncio.run_coroutine_threadsafe(work(), self._loop)
        if finishing is not None:
            _wait(finishing, timeout_s)

    def close(self, end: Work, timeout_s: float | None = None) -> None:
        """Close the loop, and wait until its thread has ended.

        :param end: ends everything that runs in the loop
        :raises TimeoutError: ``end`` takes longer; it goes on as long as the process does
        """
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        _wait(asyncio.run_coroutine_threadsafe(end(), loop), timeout_s)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop


def _wait(finishing: Future[None], timeout_s: float | None) -> None:
    try:
        finishing.result(timeout_s)
    except FutureTimeoutError as late:
        raise TimeoutError(f"not finished within {timeout_s} s") from late
