"""Polls a value in the background; readers get the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from airflow_provider.kafka.errors import TransportError

_EVERY_S: Final = 5.0


class Polled:
    """A yes-or-no question that is asked every 5 seconds.

    :param ask: raises :class:`TransportError` if there is no answer
    :ivar answer: the last answer; False while there is none
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self.answer = False
        self._ask = ask

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Poll while the block runs."""
        polling = asyncio.ensure_future(self._poll())
        try:
            yield
        finally:
            polling.cancel()

    async def _poll(self) -> None:
        while True:
            try:
                self.answer = await self._ask()
            except (TransportError, TimeoutError, asyncio.TimeoutError):
                self.answer = False
            await asyncio.sleep(_EVERY_S)
