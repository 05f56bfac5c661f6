"""A question that is asked again and again, while others look at the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from airflow_provider.kafka.errors import TransportError

_EVERY_S: Final = 5.0


class KeptAsked:
    """Whether something is so, as far as is known: False also while nobody answers.

    :param ask: raises :class:`TransportError` if nobody answers
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self.is_so = False
        self._ask = ask

    @contextmanager
    def going_on(self) -> Iterator[None]:
        asking = asyncio.ensure_future(self._keep_asking())
        try:
            yield
        finally:
            asking.cancel()

    async def _keep_asking(self) -> None:
        while True:
            try:
                self.is_so = await self._ask()
            except (TransportError, TimeoutError, asyncio.TimeoutError):
                self.is_so = False
            await asyncio.sleep(_EVERY_S)
