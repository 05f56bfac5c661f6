"""Runs callbacks and background tasks that nobody awaits, without losing their faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class Steps:
    """Runs them, and keeps the first fault of this program that occurs.

    :param on_fault: called when a fault has occurred
    """

    def __init__(self, on_fault: Callable[[], None]) -> None:
        self.fault: BaseException | None = None
        self._on_fault = on_fault
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run this in the background."""
        step = asyncio.ensure_future(work)
        self._running.add(step)
        step.add_done_callback(self._done)
        return step

    def guarded(self, callback: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call this on behalf of a caller that could not handle a fault in it."""
        try:
            callback(*args, **kwargs)
        except Exception as bug:  # noqa: BLE001  the caller can't handle it
            self._found(bug)

    async def cancel(self) -> None:
        for step in self._running:
            step.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _done(self, step: asyncio.Task[None]) -> None:
        self._running.discard(step)
        if not step.cancelled():
            self._found(step.exception())

    def _found(self, bug: BaseException | None) -> None:
        if bug is not None and self.fault is None:
            self.fault = bug
            self._on_fault()
