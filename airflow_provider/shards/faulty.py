"""Remembers what the machine has failed at, so that it is not given to it again: after each failure the shard has to be
loaded again, and all its groups wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, get_args

from airflow_provider.declarative.wire.apis import MemberRequestBody, RequestBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest
from airflow_provider.protocol.model import MemberId

QUARANTINED: Final = (
    "the coordinator failed when it handled a request of this worker, and refuses all its requests for a while: see its"
    " log"
)
_MEMBER_REQUESTS: Final = get_args(MemberRequestBody)

InstanceOf = Callable[[str, MemberId], str | None]
"""The instance id of a member of a group. None: it has none, or the member is not known."""


class Source(NamedTuple):
    """Who sends requests.

    :param member_id: of one process of a worker: the next process has another one
    :param instance_id: the worker's name, which stays; None: it is not known
    """

    group_id: str
    member_id: MemberId
    instance_id: str | None

    def is_same(self, other: Source) -> bool:
        """Whether both are the same member, or members of the same worker."""
        same_worker = self.instance_id is not None and self.instance_id == other.instance_id
        return self.group_id == other.group_id and (self.member_id == other.member_id or same_worker)

    def __str__(self) -> str:
        worker = "" if self.instance_id is None else f" (worker {self.instance_id!r})"
        return f"member {self.member_id!r}{worker} of group {self.group_id!r}"


def source_of(body: RequestBody, instance_of: InstanceOf) -> Source | None:
    """Who has sent a request; None: people.

    :param instance_of: asked unless the request says it: members say their names only when they join
    """
    if not isinstance(body, _MEMBER_REQUESTS):
        return None
    said = body.instance_id if isinstance(body, ConnectGroupHeartbeatRequest) else None
    return Source(body.group_id, body.member_id, said or instance_of(body.group_id, body.member_id))


class Faulty:
    """The faulty requests of one shard, by offset, and the workers in quarantine. It outlives the state machine."""

    def __init__(self) -> None:
        self._requests: set[int] = set()
        self._until_ms: dict[Source, int] = {}

    def __contains__(self, request: object) -> bool:
        return request in self._requests

    def note(self, requests: Iterable[int]) -> None:
        """Note requests that can't be handled."""
        self._requests.update(requests)

    def quarantine(self, source: Source, *, now_ms: int, until_ms: int) -> None:
        """Note whose requests must not be handled until then. A worker has another member id in each process, so its
        name counts, too.
        """
        self._until_ms = {each: its_ms for each, its_ms in self._until_ms.items() if its_ms > now_ms}
        self._until_ms[source] = until_ms

    def is_quarantined(self, source: Source | None, now_ms: int) -> bool:
        """Whether the requests of this one must not be handled now."""
        return source is not None and any(
            until_ms > now_ms and source.is_same(each) for each, until_ms in self._until_ms.items()
        )
