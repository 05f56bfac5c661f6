"""A watcher's events for the shared streams of Airflow's triggerer, which reports which events it has stored (Airflow
3.3 and newer).

Only import this if Airflow has shared streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider.triggers.asset_watchers.event_stream import EventStream, Telling


class EventProducer(SharedStreamProducer):
    """Passes on the events of a stream, and moves its bookmark.

    A shared stream of Airflow has one position for all its watchers, and a watcher that comes late misses events. So
    each watcher has a stream of its own. They only share the reader of the topics below.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    async def open_stream(self) -> AsyncIterator[tuple[Telling, int]]:
        async for told in self._stream.told():
            yield told, told.offset

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """:raises RuntimeError: if events were not stored: then another stream sends them again"""
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
