"""A StatsD server for all tests of a session: a thread collects the metrics of groups from Airflow and its workers."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Final

from statsd_server import Line
from typing_extensions import Self

_OURS: Final = ".cospark."


class Mailbox:
    """Listens from start to end of a ``with`` block, on a free port of loopback."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._lines: list[Line] = []
        self._thread = threading.Thread(target=self._listen, name="statsd")
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def named(self, name: str) -> list[Line]:
        """The received lines with this full name, in order."""
        return [line for line in list(self._lines) if line.name == name]

    def _listen(self) -> None:
        while True:
            data, sender = self._socket.recvfrom(65_536)
            if not data:
                return
            self._lines += [Line.of(line, sender[1]) for line in data.decode().splitlines() if _OURS in line]
