"""How long there has been nothing to do here: a membership goes on without its process after a while of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Linger:
    """Counts from the last end of a task.

    :param seconds: how long to stay with nothing to do
    :param look_again: called when that may be over
    """

    def __init__(self, seconds: float, look_again: Callable[[], None]) -> None:
        self._seconds = seconds
        self._look_again = look_again
        self._timer: asyncio.TimerHandle | None = None
        self.begin()

    @property
    def over(self) -> bool:
        return time.monotonic() - self._since >= self._seconds

    def begin(self) -> None:
        """Something has ended."""
        self._since = time.monotonic()
        self.close()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._look_again)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
