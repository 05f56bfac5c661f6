"""What is sent in one turn of the event loop goes out in one system call.

A thousand heartbeats share a connection, and those that are due together are sent together: a call for each would cost
as much as all the rest of it, and wake the broker as often.
"""

from __future__ import annotations

import asyncio
from typing import Any


class OneWrite:
    """In the place of the stream writer of an aiokafka connection.

    :param writer: what the connection wrote to until now
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._data: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._data:
            asyncio.get_running_loop().call_soon(self._flush)
        self._data.append(data)

    def close(self) -> None:
        """What was not sent yet has no answer, as the connection says to those who wait for one."""
        self._data.clear()
        self._writer.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def _flush(self) -> None:
        data, self._data = self._data, []
        if data:
            self._writer.write(b"".join(data))
