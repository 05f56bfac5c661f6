"""The requests of a shard whose replies are not committed yet, and where these replies go."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Final

from airflow_provider.group.declarative.protocol.exchange import ReplyAddress, Write
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

FAILED: Final = "the coordinator failed when it handled this request: see its log"


class Held:
    """The unanswered requests. When the state machine is discarded, they are refused, so that they are sent again."""

    def __init__(self) -> None:
        self._addresses: dict[int, ReplyAddress] = {}
        self._answered: set[int] = set()

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, request: int, address: ReplyAddress) -> None:
        self._addresses[request] = address

    def answer(self, request: int) -> ReplyAddress | None:
        """Where a request's reply goes, which will be committed next. None: it already has a reply."""
        if request in self._answered or request not in self._addresses:
            return None
        self._answered.add(request)
        return self._addresses[request]

    def committed(self) -> None:
        """Forget the answered requests: their replies are committed."""
        self.forget(self._answered)

    def forget(self, requests: Collection[int]) -> None:
        """Forget requests that will be read again."""
        for request in tuple(requests):
            self._addresses.pop(request, None)
            self._answered.discard(request)

    def forget_answered(self, requests: Collection[int]) -> None:
        """Forget those of the requests that have a reply: they are read again, or their replies are committed after
        all. Those without a reply are kept, to be refused: they may not be read again.
        """
        self.forget(self._answered.intersection(requests))

    def refuse_all(self, error_code: KafkaErrorCode, message: str, *, faulty: Container[int]) -> list[Write]:
        """Refuse all waiting requests, so that they are sent again.

        :param faulty: requests for which that would not help; they get UNKNOWN_SERVER_ERROR
        """
        self._answered = set(self._addresses)
        return [
            address.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, FAILED)
            if request in faulty
            else address.refusal(error_code, message)
            for request, address in self._addresses.items()
        ]
