"""Runs a coroutine on an event loop in a thread, while the main thread waits and can handle signals."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from airflow_provider.integration.interruptible import wait_for

T = TypeVar("T")


class LoopThread(Generic[T]):
    """One coroutine on a loop of its own.

    Airflow handles signals in the main thread, inside whatever runs there, so that thread must not be the loop's.
    anyio's portal can't be used: ending it waits without limit for what runs in it, and takes locks, which a signal
    handler must not.

    :param work: makes the coroutine; called on the loop
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: Future[T] = Future()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="cospark-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most so many seconds. In the main thread, signal handlers run meanwhile.

        :returns: whether it has ended
        """
        return wait_for(self._done, timeout_s)

    def result(self) -> T:
        """The coroutine's result, after its end.

        :raises BaseException: what it raised
        """
        return self._done.result(0)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call ``function`` on the loop; does nothing if none runs. A signal handler may call this."""
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(function)
            except RuntimeError:  # the loop was closed meanwhile
                return

    def _run(self) -> None:
        try:
            result = asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001  raised again in the thread that waits
            self._done.set_exception(error)
        else:
            self._done.set_result(result)

    async def _main(self) -> T:
        self._loop = asyncio.get_running_loop()
        return await self._work()
