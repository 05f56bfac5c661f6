"""What goes into a coordinator, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from airflow_provider.coordinator.settings import GroupConfiguration
from airflow_provider.declarative.wire.apis import ReplyBody, RequestBody
from airflow_provider.declarative.wire.records import Record
from airflow_provider.protocol.model import Tasks

RequestId = NewType("RequestId", int)
"""Which request a reply is for. Given by who reads the requests, who knows where its reply has to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A member has asked something.

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
class GroupConfigured:
    """People have set how a group is coordinated. It takes the place of what was set before."""

    now_ms: int
    group_id: str
    configuration: GroupConfiguration


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The time has come that :attr:`Effects.timer_at_ms` named. It may fire too often. Requests that have arrived go
    first: if it was the coordinator that was slow, no member must lose its session for that.
    """

    now_ms: int


Event = RequestArrived | JobsRead | GroupConfigured | TimerFired


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
