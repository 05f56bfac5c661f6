"""Updates an asset when something happens in a group, so that a DAG can be scheduled by it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_metadata.storable import storable, storing_failures
from airflow_provider.integration.operator_parameters.parameters import group_name, text
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.reports.group_events import EventKind
from airflow_provider.triggers.asset_watchers.event_stream import EventStream, Telling, Watched
from airflow_provider.values.saved import SAVED_VERSION, check_saved

if TYPE_CHECKING:
    from airflow.triggers.shared_stream import SharedStreamProducer

log = logging.getLogger(__name__)

_STORED_AFTER_S: Final = 10.0
"""Before 3.3 Airflow does not say when it has stored an event. It takes a second or two."""


class GroupEventTrigger(BaseEventTrigger):
    """Fires for events of a group, on behalf of an asset watcher; see ``docs/scheduling.md``.

    A triggerer has one consumer for each connection, however many watchers there are.

    :param group: the group
    :param events: which kinds of events: ``rebalanced``, ``job_finished``, ``job_failed``, ``task_failed``,
        ``task_keeps_failing``, ``task_stalled``, ``worker_lost``
    :param job: only events of this job
    :param name: the name of the watcher's bookmark. By default it is made of all other parameters: if one of them is
        changed, a new watcher begins. Two watchers of a group with the same name miss events, whatever else differs.
        Two Airflows that watch the same group need different names
    :param kafka_conn_id: a connection of type ``kafka``
    """

    def __init__(
        self,
        *,
        group: str,
        events: Iterable[str],
        job: str | None = None,
        name: str = "",
        kafka_conn_id: str = SparkGroupHook.default_conn_name,
        v: int = SAVED_VERSION,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # without hints
        check_saved({"v": v}, "GroupEventTrigger")
        self.group = group_name(group)
        self.kinds = _kinds(events)
        self.job = job
        self.name = name
        self.kafka_conn_id = text("kafka_conn_id", kafka_conn_id)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "v": SAVED_VERSION,
                "kafka_conn_id": self.kafka_conn_id,
                "group": self.group,
                "events": sorted(kind.value for kind in self.kinds),
                "job": self.job,
                "name": self.name,
            },
        )

    @property
    def watched(self) -> Watched:
        what = self.name or _digest(self.kafka_conn_id, sorted(self.kinds), self.job)
        return Watched(
            kafka_conn_id=self.kafka_conn_id,
            group=self.group,
            kinds=self.kinds,
            bookmark=f"{self.group}.watcher.{what}",
            job=self.job,
        )

    def shared_stream_key(self) -> Hashable:
        """Each watcher has its own stream, because it has its own position."""
        return type(self).__qualname__, json.dumps(self.serialize()[1])

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        from airflow_provider.triggers.asset_watchers.event_producer import EventProducer

        return EventProducer(EventStream(cls(**kwargs).watched))

    @storing_failures
    async def filter_shared_stream(self, shared_stream: AsyncIterator[Telling]) -> AsyncGenerator[TriggerEvent, None]:
        async for told in shared_stream:
            events = storable([event.to_json(self.group) for event in told.events])
            yield TriggerEvent({"events": events, "perhaps_again": told.perhaps_again})  # type: ignore[no-untyped-call]

    @storing_failures
    async def run(self) -> AsyncGenerator[TriggerEvent, None]:
        """For Airflow versions without shared streams: events count as stored after some seconds."""
        stream = EventStream(self.watched)
        told_at: deque[tuple[float, int]] = deque()
        marking = asyncio.ensure_future(_mark_later(stream, told_at))
        try:
            async for told in stream.told():
                async for event in self.filter_shared_stream(_only(told)):
                    yield event
                told_at.append((asyncio.get_running_loop().time(), told.offset))
        finally:
            marking.cancel()
            await asyncio.wait([marking])
            await stream.aclose()


async def _only(told: Telling) -> AsyncIterator[Telling]:
    yield told


async def _mark_later(stream: EventStream, told_at: deque[tuple[float, int]]) -> None:
    offset = -1
    while True:
        await asyncio.sleep(1)
        old = asyncio.get_running_loop().time() - _STORED_AFTER_S
        while told_at and told_at[0][0] <= old:
            _, offset = told_at.popleft()
        if offset < 0:
            continue
        try:
            await stream.stored(offset)
        except TopicError as problem:  # no more events are sent before the bookmark has moved
            log.warning("%s; it is tried again", problem)
        else:
            offset = -1


def _kinds(events: Iterable[str]) -> frozenset[EventKind]:
    """:raises ValueError: if there is no such event, or none is named"""
    known = ", ".join(kind.value for kind in EventKind)
    if isinstance(events, str):
        raise ValueError(f"events: must be a list of {known}, not {events!r}")
    try:
        kinds = frozenset(map(EventKind, events))
    except ValueError as wrong:
        raise ValueError(f"events: {wrong}; there are {known}") from None
    if not kinds:
        raise ValueError(f"events: names none of {known}")
    return kinds


def _digest(*what: object) -> str:
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]
