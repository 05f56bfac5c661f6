"""One line in the log when the brokers go away and one when they are back, however many tries lie between."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

log: Final = logging.getLogger(__name__)


class Outage:
    """Whether the brokers of one connection can be reached. Safe for threads.

    :param servers: the connection's bootstrap servers, for the log
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._lock = threading.Lock()
        self._since: float | None = None
        self._reason = ""

    @property
    def away(self) -> bool:
        return self._since is not None

    @property
    def reason(self) -> str:
        """The last thing that went wrong; empty while all is well."""
        return self._reason

    def trouble(self, reason: str) -> None:
        """One connection to a broker failed; others may work."""
        self._reason = reason

    def went_away(self, reason: str) -> None:
        """No broker can be reached."""
        with self._lock:
            if self._since is not None:
                return
            self._since = time.monotonic()
            self._reason = self._reason or reason
        log.warning("no broker of %s can be reached (%s); trying again until one can", self.servers, self._reason)

    def is_back(self) -> None:
        """A broker has answered."""
        with self._lock:
            since, self._since, self._reason = self._since, None, ""
        if since is not None:
            log.info("the broker of %s is back after %.1f s", self.servers, time.monotonic() - since)
