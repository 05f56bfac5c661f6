"""What goes into a coordinator, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from airflow_provider.declarative.wire.apis import ReplyBody, RequestBody
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import NO_TASKS, Epoch, Tasks

RequestId = NewType("RequestId", int)
"""Which request a reply is for. Given by who reads the requests, who knows where its reply has to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A member has asked something, or somebody who configures a group.

    :param client_id: of the member's Kafka client, for people
    :param client_host: where that is, for people
    """

    now_ms: int
    request: RequestId
    body: RequestBody
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRead:
    """What is configured in a group has been read in its topics.

    :param tasks: planners, and the tasks that have not finished
    """

    now_ms: int
    group_id: str
    tasks: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSpoken:
    """In a group's own topics workers have spoken in this epoch, and in none above it. The group's epochs go on from
    there: what was written in a higher one would win over all that is written from now on.
    """

    now_ms: int
    group_id: str
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSaid:
    """The bridge of a group is in the classic group of its name (:mod:`.bridging`).

    :param epoch: of the last round that it was in
    :param tasks: what it was given there and need not give up: what the declarative group is to run
    :param lease_until_ms: before then nobody else is given what it has
    """

    now_ms: int
    group_id: str
    epoch: Epoch
    tasks: Tasks
    lease_until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeLost:
    """The bridge of a group is not in the classic group any more, or does not know: others may be given what it had.

    :param why: what keeps it out; empty: nothing
    """

    now_ms: int
    group_id: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The time has come that :attr:`Effects.timer_at_ms` named. It may fire too often. Requests that have arrived go
    first: if it was the coordinator that was slow, no member must lose its session for that.
    """

    now_ms: int


Event = RequestArrived | JobsRead | EpochSpoken | BridgeSaid | BridgeLost | TimerFired


@dataclass(frozen=True, slots=True)
class BridgeAsks:
    """What a bridge would let go of.

    :param number: counts on with each of these, so that a late answer is not taken for one to a later question
    """

    tasks: Tasks = NO_TASKS
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBridge:
    """What the bridge of a group has to know of it.

    :param members: how many there are, with those that may still run something: the bridge stands for so many
    :param wants_epoch: something needs a new epoch, which only another classic round can give
    :param free: of the tasks that were asked for, those that nobody runs or will be given: the bridge may let go of
        them
    """

    members: int
    wants_epoch: bool
    free: Tasks


@dataclass(frozen=True, slots=True)
class Reply:
    request: RequestId
    body: ReplyBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What an event has led to. Records and replies belong into one transaction: a member must not be answered by what
    the next coordinator will not know. Should that fail, the coordinator is of no use any more: its state is ahead.

    :param records: to be written in this order; they are applied already
    :param replies: to this request, or to earlier ones that were held
    :param timer_at_ms: when it needs a :class:`TimerFired`, in the time of ``now_ms``; None: never. The
        last one counts
    """

    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    timer_at_ms: int | None = None
