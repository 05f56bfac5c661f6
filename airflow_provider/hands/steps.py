"""What goes on in a worker and nobody awaits: callbacks, and work beside them. A fault in it must not get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Steps:
    """Runs them, and keeps the first fault of this program that shows up in one.

    :param on_fault: called when there is one
    """

    def __init__(self, on_fault: Callable[[], None]) -> None:
        self.fault: BaseException | None = None
        self._on_fault = on_fault
        self._running: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Have this go on beside its caller."""
        step = asyncio.ensure_future(work)
        self._running.add(step)
        step.add_done_callback(self._done)
        return step

    def guarded(self, callback: Callable[[], None]) -> None:
        """Call this, for somebody who could not help a fault in it."""
        try:
            callback()
        except Exception as bug:  # noqa: BLE001  the caller can't help it
            self._found(bug)

    async def cancel(self) -> None:
        """Cancel what still goes on."""
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
