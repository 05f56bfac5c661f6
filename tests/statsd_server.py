"""A StatsD server for tests: a UDP socket, and what it received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import statsd  # noqa: F401  Airflow sends with it; without it nothing arrives, and no error says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the protocol, ``name:value|kind``.

    :param port: of the sending process, which has one socket
    """

    name: str
    value: float
    kind: str
    port: int

    @classmethod
    def of(cls, line: str, port: int) -> Line:
        name, _, rest = line.partition(":")
        value, _, kind = rest.partition("|")
        return cls(name=name, value=float(value), kind=kind, port=port)


class StatsdServer(asyncio.DatagramProtocol):
    """:ivar lines: all received lines, in order"""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.port = 0

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.lines.extend(Line.of(line, addr[1]) for line in data.decode().splitlines())

    def named(self, name: str, since: int = 0) -> list[Line]:
        """The lines with that name, without the first ``since`` of all lines."""
        return [line for line in self.lines[since:] if line.name == name]

    def last(self, name: str, since: int = 0) -> float | None:
        lines = self.named(name, since)
        return lines[-1].value if lines else None

    def total(self, name: str) -> float:
        """The sum of a counter."""
        return sum(line.value for line in self.named(name))


@asynccontextmanager
async def statsd_server() -> AsyncIterator[StatsdServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(StatsdServer, local_addr=("127.0.0.1", 0))
    server.port = transport.get_extra_info("sockname")[1]
    try:
        yield server
    finally:
        transport.close()
        await asyncio.sleep(0)
