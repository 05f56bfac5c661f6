"""A watcher's events as Airflow's triggerer takes them, since 3.3: it says which of them it has stored.

Only to be imported where Airflow has shared streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider.triggers.event_stream import EventStream, Telling


class EventProducer(SharedStreamProducer):
    """Hands on what the stream tells, and moves its bookmark.

    A shared stream of Airflow's keeps one position for all that share it, and one of them that comes late misses what
    the others were told. So each watcher has one of its own; what they share is below: the reader of the topics.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    async def open_stream(self) -> AsyncIterator[tuple[Telling, int]]:
        async for told in self._stream.told():
            yield told, told.offset

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """:raises RuntimeError: if something was not stored; then it is told again, by another stream"""
        stored: Any = None
        for item in batch:
            if not item.outcome.is_clean:
                break
            stored = item.broker_payload
        if stored is not None:
            await self._stream.stored(stored)
        if stored != batch[-1].broker_payload:
            raise RuntimeError(f"{self._stream}: Airflow did not store these events; they are sent again")

    async def aclose(self) -> None:
        await self._stream.aclose()
