"""One connection to a server, and one round of looks, for all memberships of a process that use it as the same user."""

from __future__ import annotations

import asyncio
from typing import Final

from airflow_provider.spark_connect.asking import UnansweredError
from airflow_provider.spark_connect.line import Line
from airflow_provider.spark_connect.looks import Looks
from airflow_provider.spark_connect.server import ConnectServer, ConnectSettings


class SharedServer:
    """A server that is watched from one event loop."""

    def __init__(self, settings: ConnectSettings) -> None:
        self.line = Line(settings)
        self.looks = Looks(str(settings.server))
        self.users = 0
        self._looking = asyncio.create_task(self._look(), name=f"looks at {settings.server}")

    async def open(self) -> None:
        """:raises UnansweredError: if this process lacks what is needed to ask"""
        await self.line.open()

    async def close(self) -> None:
        self._looking.cancel()
        await asyncio.wait([self._looking])
        await self.line.close()

    async def _look(self) -> None:
        try:
            await self.open()
        except UnansweredError as error:
            self.looks.give_up(str(error))
        else:
            await self.looks.run()


_Key = tuple[asyncio.AbstractEventLoop, ConnectServer, str]


class SharedServers:
    """All of a process: by event loop, server and token."""

    def __init__(self) -> None:
        self._open: dict[_Key, SharedServer] = {}

    def take(self, settings: ConnectSettings) -> SharedServer:
        """Each is to be given back."""
        key = asyncio.get_running_loop(), settings.server, settings.token
        server = self._open.get(key)
        if server is None:
            server = self._open[key] = SharedServer(settings)
        server.users += 1
        return server

    async def give_back(self, server: SharedServer) -> None:
        """The last one closes it."""
        server.users -= 1
        if not server.users:
            for key in [key for key, each in self._open.items() if each is server]:
                del self._open[key]
            await server.close()


SERVERS: Final = SharedServers()
