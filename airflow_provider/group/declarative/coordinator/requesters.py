"""Who sends requests: a member of a group, and so a worker, or people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, get_args

from airflow_provider.group.declarative.protocol.wire.messages.apis import MemberRequestBody, RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.values.model import MemberId

_MEMBER_REQUESTS: Final = get_args(MemberRequestBody)

InstanceOf = Callable[[str, MemberId], str | None]
"""The instance id of a member of a group. None: it has none, or the member is not known."""


class Requester(NamedTuple):
    """A member that sends requests.

    :param member_id: of one process of a worker: the next process has another one
    :param instance_id: the worker's name, which stays; None: it is not known
    """

    group_id: str
    member_id: MemberId
    instance_id: str | None

    def is_same(self, other: Requester) -> bool:
        """Whether both are the same member, or members of the same worker."""
        same_worker = self.instance_id is not None and self.instance_id == other.instance_id
        return self.group_id == other.group_id and (self.member_id == other.member_id or same_worker)

    def __str__(self) -> str:
        worker = "" if self.instance_id is None else f" (worker {self.instance_id!r})"
        return f"member {self.member_id!r}{worker} of group {self.group_id!r}"


def requester_of(body: RequestBody, instance_of: InstanceOf) -> Requester | None:
    """The member that has sent a request; None: people have.

    :param instance_of: asked unless the request says it: members say their names only when they join
    """
    if not isinstance(body, _MEMBER_REQUESTS):
        return None
    said = body.instance_id if isinstance(body, ConnectGroupHeartbeatRequest) else None
    return Requester(body.group_id, body.member_id, said or instance_of(body.group_id, body.member_id))
