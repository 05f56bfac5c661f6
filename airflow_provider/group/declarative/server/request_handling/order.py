"""Finds requests that were overtaken by later ones of the same sender. Their numbers grow in the order of sending."""

from __future__ import annotations

from typing import Final

from airflow_provider.group.declarative.protocol.exchange import ReplyAddress

_NUMBERS: Final = 2**31
_READERS: Final = 20_000
"""How many senders are remembered: the last ones. Each process with members is one."""


class Order:
    """The last request of each sender in one shard, since it was loaded.

    Kafka keeps the order of an idempotent producer, unless a produce request has timed out: it may still be in a
    broker's socket when its successor is written on another connection.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}

    def was_overtaken(self, address: ReplyAddress) -> bool:
        """Whether a later request of the same sender came first. If not, this one is remembered."""
        if address.reader is None:
            return False
        last = self._last.pop(address.reader, None)
        overtaken = last is not None and (address.correlation_id - last) % _NUMBERS >= _NUMBERS // 2
        self._last[address.reader] = last if overtaken and last is not None else address.correlation_id
        if len(self._last) > _READERS:
            del self._last[next(iter(self._last))]
        return overtaken
