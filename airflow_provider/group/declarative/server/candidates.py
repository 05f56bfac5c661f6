"""Lets each process that holds memberships coordinate, too, unless coordinators are dedicated.

This costs a process one consumer, however many memberships it holds, and for each shard that it gets a thread, a
producer, and the state of the groups. If there are more processes than shards, most processes get none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server.migration.bridges import Bridges
from airflow_provider.group.declarative.server.server import ShardObserver, ShardServer
from airflow_provider.group.declarative.session_lengths import warn_of_short_sessions
from airflow_provider.kafka.per_process import PerProcess
from airflow_provider.kafka.settings import KafkaSettings


def shard_server(
    settings: KafkaSettings,
    coordinator: CoordinatorSettings,
    bridges: Bridges | None = None,
    observer: ShardObserver | None = None,
) -> ShardServer:
    """A server of shards with the coordinator of declarative groups.

    :param bridges: the bridges to classic groups, if the migration policy is ``bidirectional``
    :param observer: hears how shards are served
    """
    return ShardServer(
        settings,
        lambda: Coordinator(coordinator),
        when_connected=lambda admin: warn_of_short_sessions(admin, coordinator),
        bridges=bridges,
        observer=observer,
    )


class _Open:
    """The servers that a process has open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.servers: dict[KafkaSettings, ShardServer] = {}
        self.users: dict[KafkaSettings, int] = {}


_open = PerProcess(_Open)


@asynccontextmanager
async def candidate(
    settings: KafkaSettings, coordinator: CoordinatorSettings, observer: ShardObserver | None = None
) -> AsyncIterator[ShardServer]:
    """Let this process coordinate while any caller in it is in this context.

    :param coordinator: the settings; those of the first caller are used. All coordinators of a cluster have the same
    :param observer: hears how shards are served; that of the first caller does
    """
    server = _acquire(settings, coordinator, observer)
    try:
        yield server
    finally:
        unused = _release(settings)
        if unused is not None:
            await asyncio.to_thread(unused.close)


def _acquire(settings: KafkaSettings, coordinator: CoordinatorSettings, observer: ShardObserver | None) -> ShardServer:
    own = _open.own
    with own.lock:
        own.users[settings] = own.users.get(settings, 0) + 1
        if settings not in own.servers:
            server = own.servers[settings] = shard_server(settings, coordinator, None, observer)
            server.start()
        return own.servers[settings]


def _release(settings: KafkaSettings) -> ShardServer | None:
    """Count one user less.

    :returns: the server, if it is not used any more, and must be closed by the caller; otherwise None
    """
    own = _open.own
    with own.lock:
        if settings not in own.servers:  # acquired in the process that this one was forked from
            return None
        own.users[settings] -= 1
        if own.users[settings]:
            return None
        del own.users[settings]
        return own.servers.pop(settings)
