"""Remembers what the machine has failed at, so that it is not given to it again: after each failure the shard has to be
loaded again, and all its groups wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, get_args

from airflow_provider.declarative.wire.apis import MemberRequestBody, RequestBody
from airflow_provider.protocol.model import MemberId

_MEMBER_REQUESTS: Final = get_args(MemberRequestBody)


class Source(NamedTuple):
    """The member that sends requests."""

    group_id: str
    member_id: MemberId


def source_of(body: RequestBody) -> Source | None:
    """The member that has sent a request. None: it is of people."""
    return Source(body.group_id, body.member_id) if isinstance(body, _MEMBER_REQUESTS) else None


class Faulty:
    """The faulty requests of one shard, by offset, and the members in quarantine. It outlives the state machine."""

    def __init__(self) -> None:
        self._requests: set[int] = set()
        self._until_ms: dict[Source, int] = {}

    def __contains__(self, request: object) -> bool:
        return request in self._requests

    def note(self, requests: Iterable[int]) -> None:
        """Note requests that can't be handled."""
        self._requests.update(requests)

    def quarantine(self, source: Source, *, now_ms: int, until_ms: int) -> None:
        """Note a member whose requests must not be handled until then."""
        self._until_ms = {each: its_ms for each, its_ms in self._until_ms.items() if its_ms > now_ms}
        self._until_ms[source] = until_ms

    def is_quarantined(self, source: Source | None, now_ms: int) -> bool:
        """Whether the requests of this member must not be handled now."""
        return source is not None and self._until_ms.get(source, 0) > now_ms
