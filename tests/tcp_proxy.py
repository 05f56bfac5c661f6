"""A TCP proxy for tests that breaks connections as networks do: it slows them down, swallows data, cuts them.

It runs its own event loop in a thread, so a test that blocks does not hold up the traffic.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from waiting import DEADLINE_S

_HOST = "127.0.0.1"
_CHUNK = 64 * 1024
_END = b""


class TcpProxy:
    """Forwards bytes both ways between clients of :attr:`port` and a server on this machine.

    :param target_port: the server's; may be set later, because a Kafka broker must know the proxy's port first
    :param tls: for connections of clients; the connection to the server is plain text
    """

    def __init__(self, target_port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.target_port = target_port
        self._tls = tls
        self.port = 0
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._passing = asyncio.Event()
        self._refusing = False
        self._delay_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted_from: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.port}"

    def slow_down(self, delay_s: float) -> None:
        """Delay all bytes from now on, each way."""
        self._delay_s = delay_s

    def stall(self) -> None:
        """Let nothing through, without an error: what is sent arrives after :meth:`heal`, as TCP retransmits it."""
        self._loop.call_soon_threadsafe(lambda: self._passing.clear())

    def strand(self) -> None:
        """Silently drop the open connections, as a firewall that has forgotten them does. New ones work."""

        def forget() -> None:
            self._passing.clear()
            self._passing = asyncio.Event()
            self._passing.set()

        self._loop.call_soon_threadsafe(forget)

    def cut(self) -> None:
        """Break all connections, and new ones immediately."""
        self._refusing = True
        self._call(self._end_all())

    def heal(self) -> None:
        self._refusing = False
        self._delay_s = 0.0
        self._loop.call_soon_threadsafe(lambda: self._passing.set())

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        self._call(self._listen())
        self.heal()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, _HOST, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._refusing = True
        await self._end_all()
        # A server that is closed while it accepts a connection leaves the socket open.
        while accepting := asyncio.all_tasks() - {asyncio.current_task()} - self._tasks:
            await asyncio.wait(accepting)
        self._server.close()
        await self._end_all()
        await self._server.wait_closed()

    async def _end_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._accepted_from:  # a task that is cancelled before its first step runs no clean-up
            writer.transport.abort()
        self._accepted_from.clear()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted_from.add(writer)
        task = self._loop.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted_from.discard(writer)
        writers = [writer]
        self.connections += 1
        try:
            if not self._refusing:
                await self._passing.wait()
                there, onward = await asyncio.open_connection(_HOST, self.target_port)
                writers.append(onward)
                await _first_to_end(self._carry(reader, onward), self._carry(there, writer))
        except OSError:
            pass  # one side is gone: close the other
        finally:
            for each in writers:
                each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward from one side to the other, in order, each piece after its delay."""
        loop, passing = asyncio.get_running_loop(), self._passing
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            data = b"-"
            while data != _END:
                data = await reader.read(_CHUNK)
                way.put_nowait((loop.time() + self._delay_s, data))

        async def write() -> None:
            while True:
                due, data = await way.get()
                await asyncio.sleep(due - loop.time())
                await passing.wait()
                if data == _END:
                    return
                writer.write(data)
                await writer.drain()

        reading = asyncio.ensure_future(read())
        try:
            await write()
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await reading


async def _first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
