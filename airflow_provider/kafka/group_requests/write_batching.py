"""Writes everything that is sent in one turn of the event loop with one system call.

A thousand memberships share a connection, and many of their heartbeats are due at the same time. A system call for each
would cost as much as all other work for the heartbeat, and would wake the broker each time.
"""

from __future__ import annotations

import asyncio
from typing import Any


class OneWrite:
    """Replaces the stream writer of an aiokafka connection.

    :param writer: the connection's former writer
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._data: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write at the end of this turn of the loop."""
        if not self._data:
            asyncio.get_running_loop().call_soon(self._flush)
        self._data.append(data)

    def close(self) -> None:
        """Close the writer. Data that were not sent yet are dropped; the connection fails the requests in them."""
        self._data.clear()
        self._writer.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def _flush(self) -> None:
        data, self._data = self._data, []
        if data:
            self._writer.write(b"".join(data))
