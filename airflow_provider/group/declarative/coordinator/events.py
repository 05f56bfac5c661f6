"""The events that a coordinator handles, and what it returns for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody, RequestBody
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks

RequestId = NewType("RequestId", int)
"""Identifies a request, for its reply. It is chosen by the reader of the requests, which knows where to reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A request has arrived: of a member, or of somebody who configures a group.

    :param client_id: the client id of the member's Kafka client, for people
    :param client_host: the host of that client, for people
    """

    now_ms: int
    request: RequestId
    body: RequestBody
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRead:
    """The configured tasks of a group were read from its topics.

    :param tasks: planners, and the tasks that have not finished
    """

    now_ms: int
    group_id: str
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSpoken:
    """The highest epoch in the records of a group's own topics was read.

    The group's epochs continue from there: otherwise those records would win over all later ones.
    """

    now_ms: int
    group_id: str
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeClaims:
    """What a new bridge says it owns, in place of the former one.

    :param tasks: the tasks that members of the declarative group may run
    :param epoch: the last epoch of the group. The bridge must have been in all classic rounds since then
    """

    tasks: Tasks = NO_TASKS
    epoch: Epoch = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSaid:
    """The bridge of a group is in the classic group of that name (:mod:`.handlers.bridging`).

    :param epoch: the epoch of the last round that it took part in
    :param tasks: the tasks that the declarative group is to run: those that the bridge has and need not release
    :param lease_until_ms: until then, the classic group gives none of these tasks to others
    """

    now_ms: int
    group_id: str
    epoch: Epoch
    tasks: Tasks
    lease_until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeLost:
    """The bridge of a group is not in the classic group any more, or may not be: others may be given its tasks.

    :param why: why it can't be in the classic group; empty: no reason
    """

    now_ms: int
    group_id: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The time in :attr:`Effects.timer_at_ms` has come. An event too many does no harm.

    The caller handles requests that have already arrived first: no member must lose its session because the
    coordinator is slow.
    """

    now_ms: int


Event = RequestArrived | JobsRead | EpochSpoken | BridgeSaid | BridgeLost | TimerFired


@dataclass(frozen=True, slots=True)
class BridgeAsks:
    """The tasks that a bridge wants to release.

    :param number: grows with each question, so that a late answer is not taken for the answer to a later one
    """

    tasks: Tasks = NO_TASKS
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBridge:
    """What the bridge of a group has to know of it.

    :param members: the number of members, with the removed ones that may still run tasks: the bridge counts as so many
        workers
    :param wants_epoch: a new epoch is needed, which takes another classic round
    :param free: of the tasks that were asked about, those that no member runs or will be assigned: the bridge may
        release them
    """

    members: int
    wants_epoch: bool
    free: Tasks


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    request: RequestId
    body: ReplyBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The result of a turn: records and replies.

    They must be written in one transaction: no answer may rest on a record that the next coordinator does not find. If
    the transaction fails, the coordinator must be discarded, because its state is ahead of the records.

    :param records: to be written in this order. They are already applied
    :param replies: to requests of this turn, or to earlier ones that were held
    :param timer_at_ms: when to send a :class:`TimerFired`, on the clock of ``now_ms``; None: never. It replaces the
        time of earlier effects
    """

    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    timer_at_ms: int | None = None
