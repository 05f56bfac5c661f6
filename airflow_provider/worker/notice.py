"""A worker leaves, and what its absence will mean is only assumed: somebody may yet tell it for sure."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from airflow_provider.values.deadlines import Deadline, DeadlineError, wait_at_most


class Notice:
    """How long a worker that leaves waits until it is told for sure. Not at all, unless it is asked to."""

    def __init__(self) -> None:
        self._sure = asyncio.Event()
        self._by = Deadline(0.0)

    def given(self, sure_within_s: float) -> None:
        """It was asked to leave, and will be told within so many seconds, or not at all."""
        self._by = Deadline(sure_within_s)

    def is_sure(self) -> None:
        """It was told."""
        self._sure.set()

    async def settled(self, *, most_s: float = float("inf")) -> None:
        """Wait until it is told, or will not be any more.

        :param most_s: wait no longer than this, in seconds
        """
        with suppress(DeadlineError):
            await wait_at_most(min(most_s, self._by.left_s()), self._sure.wait())
