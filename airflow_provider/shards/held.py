"""The requests of a shard whose replies are not committed, and where these go."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Final

from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.shards.requests import Sender, Write

FAILED: Final = "the coordinator failed when it handled this request: see its log"


class Held:
    """It outlives the machine: whoever was not answered by one is told to ask the next."""

    def __init__(self) -> None:
        self._senders: dict[int, Sender] = {}
        self._answered: set[int] = set()

    def __len__(self) -> int:
        return len(self._senders)

    def add(self, request: int, sender: Sender) -> None:
        self._senders[request] = sender

    def answer(self, request: int) -> Sender | None:
        """Where its reply goes, which is to be committed; None: it has one."""
        if request in self._answered or request not in self._senders:
            return None
        self._answered.add(request)
        return self._senders[request]

    def committed(self) -> None:
        """All replies are."""
        self.forget(self._answered)

    def forget(self, requests: Collection[int]) -> None:
        """They are read again."""
        for request in tuple(requests):
            self._senders.pop(request, None)
            self._answered.discard(request)

    def forget_answered(self, requests: Collection[int]) -> None:
        """They are read again, or their replies are committed after all. Who has none is told to ask again: it may be
        that its request is not read again.
        """
        self.forget(self._answered.intersection(requests))

    def refuse_all(self, error_code: KafkaErrorCode, message: str, *, faulty: Container[int]) -> list[Write]:
        """Have those who wait ask again: what they had asked is forgotten.

        :param faulty: those whom that would not help
        """
        self._answered = set(self._senders)
        return [
            sender.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, FAILED)
            if request in faulty
            else sender.refusal(error_code, message)
            for request, sender in self._senders.items()
        ]
