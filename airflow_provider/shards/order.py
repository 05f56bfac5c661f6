"""Requests of one reader are numbered in the order of their sending: one that was overtaken is of the past."""

from __future__ import annotations

from typing import Final

from airflow_provider.shards.requests import Sender

_NUMBERS: Final = 2**31
_READERS: Final = 20_000
"""So many are remembered, the last ones: there is one for each process with members."""


class Order:
    """Of the requests in one shard, since it was loaded.

    Kafka keeps the order of an idempotent producer, unless a request timed out: that one may still lie in a broker's
    socket when its successor is written by another connection.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def was_overtaken(self, sender: Sender) -> bool:
        """Whether a later one of the same reader came before it; if not, it is remembered."""
        if sender.reader is None:
            return False
        last = self._last.pop(sender.reader, None)
        overtaken = last is not None and (sender.correlation_id - last) % _NUMBERS >= _NUMBERS // 2
        self._last[sender.reader] = last if overtaken and last is not None else sender.correlation_id
        if len(self._last) > _READERS:
            del self._last[next(iter(self._last))]
        return overtaken
