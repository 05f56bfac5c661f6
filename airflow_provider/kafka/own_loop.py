"""An event loop in a thread of its own, for those who are called by threads without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the builtin one only since Python 3.11
from typing import Any

Work = Callable[[], Coroutine[Any, Any, None]]


class OwnLoop:
    """Begins with the first call, and ends for good when it is closed. Any thread may call it.

    :param name: of the thread
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def has_begun(self) -> bool:
        return self._loop is not None

    def call(self, do: Callable[[], object]) -> None:
        """Have this done on it, soon. Once it is closed, nothing is."""
        with self._lock:
            if not self._closed:
                self._begun().call_soon_threadsafe(do)

    def finish(self, work: Work, timeout_s: float) -> None:
        """Returns when this has been done on it; where it has not begun, there is nothing to finish.

        :raises TimeoutError: it takes longer, and goes on
        """
        with self._lock:
            finishing = None if self._loop is None else asyncio.run_coroutine_threadsafe(work(), self._loop)
        if finishing is not None:
            _wait(finishing, timeout_s)

    def close(self, end: Work, timeout_s: float | None = None) -> None:
        """Returns when the thread has ended.

        :param end: ends all that was begun on it
        :raises TimeoutError: that takes longer, and goes on as long as the process does
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
