"""Ends the detached queries of a group that no worker watches: on behalf of people, and when the last worker leaves."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.spark.attempts.failures import Mask
from airflow_provider.spark.connect.server import ConnectServer
from airflow_provider.spark.runners.driver_watch import DriverWatch
from airflow_provider.spark.runners.watches import Handle, SettingsOf, Watch, handle_for, handle_of
from airflow_provider.spark.submit.clusters import ClusterHere, cluster_here
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.state.records import is_driver
from airflow_provider.state.views.orphans import Orphan

log = logging.getLogger(__name__)

_STOP_S: Final = 30.0
_AT_ONCE: Final = 16
_USER_AGENT: Final = "cospark/orphans"


Ended = tuple[Orphan, str]
"""An orphan, and why it may still be running; empty: it has ended."""


async def end_all(
    orphans: Iterable[Orphan], topics: GroupTopics, settings_of: SettingsOf, cluster_of: ClusterHere = cluster_here
) -> list[Ended]:
    """Tell their servers to end them, and write this to the group's topics: all servers at once, a few queries of each.

    :param cluster_of: gives the clusters that may be asked; without it none of Kubernetes
    :raises TopicError: if it can't be written
    """
    of_servers: defaultdict[ConnectServer | str | None, list[Orphan]] = defaultdict(list)
    for orphan in orphans:
        of_servers[_server_of(orphan)].append(orphan)
    end = partial(_end, topics=topics, settings_of=settings_of, cluster_of=cluster_of)
    ended = await asyncio.gather(*(_end_there(each, end) for each in of_servers.values()))
    return list(chain.from_iterable(ended))


async def end_detached_queries(topics: GroupTopics, settings_of: SettingsOf, mask: Mask) -> None:
    """End all detached queries of a group that has no workers. Those that may still be running are logged. Drivers on a
    cluster are left to the group's next worker.

    :param mask: removes secrets from what the log says of them
    :raises TopicError: if it can't be written
    """
    living = [
        Orphan(status=last, label=topics.jobs.label(last.task), why="no worker stays in the group")
        for last in topics.status.living()
        if not is_driver(last.handle)
    ]
    for orphan, why in await end_all(living, topics, settings_of):
        if why:
            log.warning("%s may still be running, and no worker is in the group: %s", orphan.label, mask(why))


async def forget(orphan: Orphan, topics: GroupTopics) -> None:
    """Write to the group's topics that a query has ended: the caller is sure of that.

    :raises TopicError: if it can't be written
    """
    ended = orphan.over(wall_ms())
    await topics.publish_task(ended)
    if ended.task.job not in topics.jobs.jobs:
        await topics.forget_task(ended)


async def _end_there(orphans: Sequence[Orphan], end: Callable[[Orphan], Awaitable[str]]) -> list[Ended]:
    """If a server ends none of the first few, don't try the others: each would take as long."""
    ended: list[Ended] = []
    while len(ended) < len(orphans):
        some = orphans[len(ended) : len(ended) + _AT_ONCE]
        whys = await asyncio.gather(*map(end, some))
        ended += zip(some, whys, strict=True)
        if all(whys):
            untried = f"not tried, because others on this server could not be ended: {whys[0]}"
            return [*ended, *((orphan, untried) for orphan in orphans[len(ended) :])]
    return ended


async def _end(orphan: Orphan, topics: GroupTopics, settings_of: SettingsOf, cluster_of: ClusterHere) -> str:
    from airflow_provider.spark.connect.query_watch.watching import QueryWatch  # gRPC stands behind it

    try:
        handle = handle_for(orphan.status.task, topics.group, orphan.status.handle)
        if isinstance(handle, DriverHandle):
            await _stop(DriverWatch(partial(cluster_of, handle.cluster), _hear), handle)
        else:
            await _stop(QueryWatch(await settings_of(handle), _USER_AGENT, _hear), handle)
    except Exception as failed:  # noqa: BLE001 - whatever the client raises, it is no answer
        return str(failed) or type(failed).__name__
    await forget(orphan, topics)
    return ""


async def _stop(watch: Watch, handle: Handle) -> None:
    try:
        await watch.stop(handle, timeout_s=_STOP_S)
    finally:
        await watch.close()


def _server_of(orphan: Orphan) -> ConnectServer | str | None:
    try:
        return handle_of(orphan.status.handle).server
    except ValueError:
        return None


def _hear(_news: object) -> None:
    """No events come: nothing is watched."""
