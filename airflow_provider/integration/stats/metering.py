"""Watches the groups whose workers this process holds, and sends metrics of them.

A triggerer holds a thousand workers, so a group is looked at once for all of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.membership import MembershipSettings
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.event_loops.off_loop import REST, off_loop
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.event_counts import Course
from airflow_provider.state.metrics.gauges import gauges, gauges_of_removed
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.metrics.spokesman import spokesman
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Epoch, WorkerId
from airflow_provider.worker.reporting.observer import UNOBSERVED, Observer

if TYPE_CHECKING:
    from airflow_provider.integration.stats.airflow_stats import Destination
    from airflow_provider.kafka.topics.topic_writer import GroupTopics

log = logging.getLogger(__name__)

_SETTLED_S: Final = 0.2
"""Seconds for which changes of workers' records are collected: each look goes through all members."""


def observer_of(member: MembershipSettings, destination: Destination | None, counted: Epoch = Epoch(0)) -> Observer:
    """The observer of a worker.

    :param destination: where its metrics go; None: nowhere
    :param counted: the last round that the same worker has seen in another process
    """
    return UNOBSERVED if destination is None else Meter(member.group_id, member.worker, destination, counted)


class Meter:
    """The observer of one worker (:class:`~airflow_provider.worker.reporting.observer.Observer`).

    :param counted: the last round that the same worker has seen in another process
    """

    def __init__(self, group: str, worker: WorkerId, destination: Destination, counted: Epoch = Epoch(0)) -> None:
        self._group = group
        self._worker = worker
        self._destination = destination
        self._counted = counted

    def watching(self, topics: GroupTopics) -> AbstractAsyncContextManager[object]:
        return _Watching(topics, self._worker, self._destination, self._counted)

    def lease_ended(self, reason: StopReason) -> None:
        if reason is not StopReason.LEAVING:
            sample = Sample(metric=declared.LEASES_ENDED, value=1, tags=(self._group, reason.value))
            self._destination.outlet.send([sample])


class _Watching:
    """A class instead of a generator, to save memory: there may be a thousand."""

    __slots__ = ("_counted", "_destination", "_topics", "_watched", "_worker")

    def __init__(self, topics: GroupTopics, worker: WorkerId, destination: Destination, counted: Epoch) -> None:
        self._topics = topics
        self._worker = worker
        self._destination = destination
        self._counted = counted

    async def __aenter__(self) -> None:
        watched = _WATCHED.get(self._topics)
        if watched is None:
            watched = _WATCHED[self._topics] = _Watched(self._topics, self._destination, self._counted)
        self._watched = watched
        watched.add(self._worker)

    async def __aexit__(self, *_: object) -> None:
        await self._watched.remove(self._worker)


class _Watched:
    """One group, watched for all workers of it that this loop holds."""

    def __init__(self, topics: GroupTopics, destination: Destination, counted: Epoch) -> None:
        self._topics = topics
        self._destination = destination
        self._held: dict[WorkerId, int] = {}
        self._course = Course.beginning(topics.status, counted)
        self._told_of: frozenset[str] = frozenset()
        self._settled: asyncio.TimerHandle | None = None
        # Without a context, because what is logged here is about a group and belongs to no worker's log.
        context = contextvars.Context()
        self._unsubscribe = (
            context.run(topics.subscribe, self._look, About.ROUNDS | About.TASKS),
            context.run(topics.subscribe, self._look_soon, About.WORKERS),
        )
        self._telling = context.run(asyncio.ensure_future, self._tell_now_and_then())

    def add(self, worker: WorkerId) -> None:
        """Add a worker. It may be held twice for a moment: by a copy of a trigger, and by the one that replaces it."""
        self._held[worker] = self._held.get(worker, 0) + 1

    async def remove(self, worker: WorkerId) -> None:
        try:
            self._look()
            if self._held == {worker: 1} and present(self._topics.status) <= self._held.keys():
                await self._tell()  # no other process will send the last values
        except Exception:  # noqa: BLE001  a worker runs without metrics
            self._complain()
        self._held[worker] -= 1
        if not self._held[worker]:
            del self._held[worker]
        if not self._held:
            self._close()
            await self._destination.outlet.settle()

    def _close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        if self._settled is not None:
            self._settled.cancel()
        self._telling.cancel()
        if _WATCHED.get(self._topics) is self:
            del _WATCHED[self._topics]

    def _look_soon(self) -> None:
        if self._settled is None:
            self._settled = asyncio.get_running_loop().call_later(_SETTLED_S, self._look)

    def _look(self) -> None:
        if self._settled is not None:
            self._settled.cancel()
            self._settled = None
        self._course, samples = self._course.until(
            self._topics.status, self._topics.group, self._held.keys(), wall_ms()
        )
        self._destination.outlet.send(samples)

    async def _tell_now_and_then(self) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            try:
                if spokesman(self._topics.status) in self._held:
                    await self._tell()
                else:
                    self._told_of = frozenset()  # another process sends the gauges, and notices removed jobs
            except Exception:  # noqa: BLE001  the next time may succeed
                self._complain()
            took = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(self._destination.interval_s, REST * took))

    def _complain(self) -> None:
        log.exception("The metrics of group %r can't be worked out", self._topics.group)

    async def _tell(self) -> None:
        jobs, status, group = self._topics.jobs, self._topics.status, self._topics.group
        since, now_ms = self._course.unconverged_since_ms, wall_ms()
        removed = self._told_of - jobs.jobs.keys()

        def work_out() -> list[Sample]:
            gone = [sample for job in sorted(removed) for sample in gauges_of_removed(group, job)]
            return [*gone, *gauges(group, jobs, status, now_ms=now_ms, unconverged_since_ms=since)]

        samples = await off_loop(work_out, tasks=jobs.planned)
        self._told_of = frozenset(jobs.jobs)
        self._destination.outlet.send(samples)


_WATCHED: WeakKeyDictionary[object, _Watched] = WeakKeyDictionary()
