"""A coordinator in each process that holds memberships, unless only dedicated ones are wanted.

It costs a process one consumer, however many memberships it holds; a thread, a producer and the state of its groups for
each shard that it gets, which with more processes than shards is mostly none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from airflow_provider.coordinator.coordinator import Coordinator
from airflow_provider.coordinator.settings import CoordinatorSettings
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.per_process import PerProcess
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.shards.bridges import Bridges
from airflow_provider.shards.server import ShardServer
from airflow_provider.shards.takeover import warn_of_short_sessions


def shard_server(
    settings: KafkaSettings, coordinator: CoordinatorSettings, bridges: Bridges | None = None
) -> ShardServer:
    """Serves shards with the coordinator of declarative groups.

    :param bridges: to classic groups, where the coordinator's migration policy has any
    """
    return ShardServer(
        settings,
        lambda: _machine(coordinator),
        when_connected=lambda admin: warn_of_short_sessions(admin, coordinator),
        bridges=bridges,
    )


def _machine(settings: CoordinatorSettings) -> Coordinator:
    return Coordinator(settings, wall_ahead_ms=wall_ms() - now_ms())


class _Open:
    """What a process has open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.servers: dict[KafkaSettings, ShardServer] = {}
        self.users: dict[KafkaSettings, int] = {}


_open = PerProcess(_Open)


@asynccontextmanager
async def candidate(settings: KafkaSettings, coordinator: CoordinatorSettings) -> AsyncIterator[ShardServer]:
    """Be one of those who may coordinate, for as long as anybody in this process is in this context.

    :param coordinator: of the first one in this process; coordinators of one cluster have the same
    """
    server = _acquire(settings, coordinator)
    try:
        yield server
    finally:
        unused = _release(settings)
        if unused is not None:
            await asyncio.to_thread(unused.close)


def _acquire(settings: KafkaSettings, coordinator: CoordinatorSettings) -> ShardServer:
    own = _open.own
    with own.lock:
        own.users[settings] = own.users.get(settings, 0) + 1
        if settings not in own.servers:
            server = own.servers[settings] = shard_server(settings, coordinator)
            server.start()
        return own.servers[settings]


def _release(settings: KafkaSettings) -> ShardServer | None:
    """:returns: the server, if nobody uses it any more: close it"""
    own = _open.own
    with own.lock:
        if settings not in own.servers:  # acquired in the process that this one was forked from
            return None
        own.users[settings] -= 1
        if own.users[settings]:
            return None
        del own.users[settings]
        return own.servers.pop(settings)
