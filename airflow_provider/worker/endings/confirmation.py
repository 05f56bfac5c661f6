"""When a worker leaves, the meaning of its absence is only assumed: somebody may still confirm or correct it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from airflow_provider.values.deadlines import Deadline, DeadlineError, wait_at_most


class Confirmation:
    """How long a worker that leaves waits until this is confirmed. Not at all, unless it is asked to."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        self._by = Deadline(0.0)

    def expect(self, within_s: float) -> None:
        """The worker was asked to leave: the confirmation comes within so many seconds, or not at all."""
        self._by = Deadline(within_s)

    def arrived(self) -> None:
        """It has come."""
        self._arrived.set()

    async def wait(self, *, most_s: float = float("inf")) -> None:
        """Wait until it has come, or will not come any more.

        :param most_s: wait no longer than this, in seconds
        """
        with suppress(DeadlineError):
            await wait_at_most(min(most_s, self._by.left_s()), self._arrived.wait())
