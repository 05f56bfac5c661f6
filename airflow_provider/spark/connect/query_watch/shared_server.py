"""One channel to a server and one polling loop, shared by all memberships of a process that use it as the same user."""

from __future__ import annotations

import asyncio
from typing import Final

from airflow_provider.spark.connect.grpc_calls.calls import UnansweredError
from airflow_provider.spark.connect.grpc_calls.channel import ServerChannel
from airflow_provider.spark.connect.query_watch.polling import QueryPolling
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings


class SharedServer:
    """A server that is watched from one event loop."""

    def __init__(self, settings: ConnectSettings) -> None:
        self.channel = ServerChannel(settings)
        self.polling = QueryPolling(str(settings.server))
        self.users = 0
        self._polling = asyncio.create_task(self._poll(), name=f"polls {settings.server}")

    async def open(self) -> None:
        """:raises UnansweredError: if gRPC is not installed here"""
        await self.channel.open()

    async def close(self) -> None:
        self._polling.cancel()
        await asyncio.wait([self._polling])
        await self.channel.close()

    async def _poll(self) -> None:
        try:
            await self.open()
        except UnansweredError as error:
            self.polling.give_up(str(error))
        else:
            await self.polling.run()


_Key = tuple[asyncio.AbstractEventLoop, ConnectServer, str]


class SharedServers:
    """All shared servers of a process, by event loop, server and token."""

    def __init__(self) -> None:
        self._open: dict[_Key, SharedServer] = {}

    def take(self, settings: ConnectSettings) -> SharedServer:
        """Give each one back with :meth:`give_back`."""
        key = asyncio.get_running_loop(), settings.server, settings.token
        server = self._open.get(key)
        if server is None:
            server = self._open[key] = SharedServer(settings)
        server.users += 1
        return server

    async def give_back(self, server: SharedServer) -> None:
        """It is closed when its last user gives it back."""
        server.users -= 1
        if not server.users:
            for key in [key for key, each in self._open.items() if each is server]:
                del self._open[key]
            await server.close()


SERVERS: Final = SharedServers()
