"""Remembers what the machine has failed at, so that it is not given to it again: after each failure the shard has to be
loaded again, and all its groups wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider.group.declarative.coordinator.requesters import Requester

QUARANTINED: Final = (
    "the coordinator failed when it handled a request of this worker, and refuses all its requests for a while: see its"
    " log"
)


class Faulty:
    """The faulty requests of one shard, by offset, and the workers in quarantine. It outlives the state machine."""

    def __init__(self) -> None:
        self._requests: set[int] = set()
        self._until_ms: dict[Requester, int] = {}

    def __contains__(self, request: object) -> bool:
        return request in self._requests

    def note(self, requests: Iterable[int]) -> None:
        """Note requests that can't be handled."""
        self._requests.update(requests)

    def quarantine(self, requester: Requester, *, now_ms: int, until_ms: int) -> None:
        """Note whose requests must not be handled until then. A worker has another member id in each process, so its
        name counts, too.
        """
        self._until_ms = {each: its_ms for each, its_ms in self._until_ms.items() if its_ms > now_ms}
        self._until_ms[requester] = until_ms

    def is_quarantined(self, requester: Requester | None, now_ms: int) -> bool:
        """Whether the requests of this one must not be handled now."""
        return requester is not None and any(
            until_ms > now_ms and requester.is_same(each) for each, until_ms in self._until_ms.items()
        )
