"""Checks a request by itself, without its group: the proposal's invariants, in its order.

Each is a function that returns what is wrong, or None. The first problem is the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from airflow_provider.group.declarative.protocol.model import AWAY, JOINING
from airflow_provider.group.declarative.protocol.wire.messages.apis import MemberRequestBody, RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupAlterConfigsRequest
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest as Heartbeat
from airflow_provider.group.declarative.protocol.wire.parts import ConnectorsAndTasks

_LEAST_VERSION: Final = -1


def _group_id(request: RequestBody) -> str | None:
    return None if request.group_id else "GroupId is empty: name the group"


def _member_id(request: MemberRequestBody) -> str | None:
    return None if request.member_id else "MemberId is empty: name the member"


def _any_epoch(request: Heartbeat) -> str | None:
    if request.member_epoch < AWAY:
        return f"MemberEpoch is {request.member_epoch}: the least is -1, or -2 for a static member that will return"
    return None


def _own_epoch(request: MemberRequestBody) -> str | None:
    return None if request.member_epoch >= JOINING else f"MemberEpoch is {request.member_epoch}: the least is 0"


def _instance_id(request: Heartbeat) -> str | None:
    if request.instance_id == "":
        return "InstanceId is empty: leave it out, or name the worker"
    if request.member_epoch == AWAY and request.instance_id is None:
        return "MemberEpoch is -2: only a static member can return later; give its InstanceId, or leave with -1"
    return None


def _rebalance_timeout(request: Heartbeat) -> str | None:
    given = request.rebalance_timeout_ms
    if given > 0 or given == -1:
        return None
    return f"RebalanceTimeoutMs is {given}: it must be above 0, or -1 if it has not changed"


def _first_rebalance_timeout(request: Heartbeat) -> str | None:
    if request.rebalance_timeout_ms > 0:
        return None
    return f"RebalanceTimeoutMs is {request.rebalance_timeout_ms}: it must be above 0 in the first heartbeat"


def _one_kind_of_assignor(request: Heartbeat) -> str | None:
    if request.server_assignor is not None and request.client_assignors:
        return (
            "ServerAssignor and ClientAssignors are both given, but coordinators here have no assignors: send"
            " ClientAssignors alone"
        )
    return None


def _assignor_names(request: Heartbeat) -> str | None:
    for number, one in enumerate(request.client_assignors or ()):
        if not one.name:
            return f"the Name of ClientAssignors[{number}] is empty"
    return None


def _minimum_versions(request: Heartbeat) -> str | None:
    for one in request.client_assignors or ():
        if one.minimum_version < _LEAST_VERSION:
            return f"the MinimumVersion of the assignor {one.name} is {one.minimum_version}: the least is -1"
    return None


def _maximum_versions(request: Heartbeat) -> str | None:
    for one in request.client_assignors or ():
        if one.maximum_version < max(0, one.minimum_version):
            return (
                f"the MaximumVersion of the assignor {one.name} is {one.maximum_version}: it must be at least 0 and at"
                f" least its MinimumVersion, {one.minimum_version}"
            )
    return None


def _versions(request: Heartbeat) -> str | None:
    for one in request.client_assignors or ():
        if not one.minimum_version <= one.version <= one.maximum_version:
            return (
                f"the Version of the assignor {one.name} is {one.version}: it must lie between its MinimumVersion,"
                f" {one.minimum_version}, and its MaximumVersion, {one.maximum_version}"
            )
    return None


def _owned(request: Heartbeat) -> str | None:
    """Not in the proposal. An index below 0 is the planner's, or invalid."""
    return _indexes(request.connectors_and_tasks or ())


def _indexes(units: tuple[ConnectorsAndTasks, ...]) -> str | None:
    for unit in units:
        for task in unit.tasks:
            if task.index < 0:
                return f"a TaskId of {task.job} is {task.index}: the least is 0"
    return None


_HEARTBEAT: Final[tuple[Callable[[Heartbeat], str | None], ...]] = (
    _group_id,
    _member_id,
    _any_epoch,
    _instance_id,
    _rebalance_timeout,
    _one_kind_of_assignor,
    _assignor_names,
    _minimum_versions,
    _maximum_versions,
    _versions,
    _owned,
)
_OTHERS: Final[tuple[Callable[[MemberRequestBody], str | None], ...]] = (_group_id, _member_id, _own_epoch)


_FIRST: Final = tuple(_first_rebalance_timeout if rule is _rebalance_timeout else rule for rule in _HEARTBEAT)


def is_first(request: Heartbeat) -> bool:
    """Whether it may be its member's first heartbeat: whether it says what the member owns, and something of itself.

    Epoch 0 alone does not tell: a member that waits for others still has it, and sends only what has changed. If the
    coordinator does not know such a member any more, it has to join again.
    """
    says_nothing_of_itself = request.client_assignors is None and request.server_assignor is None
    return request.connectors_and_tasks is not None and not (
        says_nothing_of_itself and request.instance_id is None and request.rebalance_timeout_ms == -1
    )


def wrong_with_first(request: Heartbeat) -> str | None:
    """What is wrong with the first heartbeat of a member, for INVALID_REQUEST; None if nothing is."""
    return next(filter(None, (rule(request) for rule in _FIRST)), None)


def wrong_with(request: RequestBody) -> str | None:
    """What is wrong with any other request, for INVALID_REQUEST; None if nothing is."""
    if isinstance(request, ConnectGroupAlterConfigsRequest):
        return _group_id(request)
    if isinstance(request, Heartbeat):
        return next(filter(None, (rule(request) for rule in _HEARTBEAT)), None)
    return next(filter(None, (rule(request) for rule in _OTHERS)), None)
