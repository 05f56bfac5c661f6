"""Whether brokers can be reached, and if not, whose matter that is.

One line in the log when they go away and one when they are back, however many tries lie between.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from airflow_provider.topics.errors import RefusedError

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
        self._check: str | None = None
        self._waiting: set[Future[None]] = set()

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

    @property
    def refusal(self) -> RefusedError | None:
        """Why waiting does not help: a broker has refused us, or we don't trust it, and none has answered since."""
        with self._lock:
            return None if self._check is None else RefusedError(self.servers, self._reason, self._check)

    def refused(self, reason: str, check: str) -> None:
        """A broker refused our credentials, or has a certificate that we don't trust.

        :param check: what people should look at
        """
        with self._lock:
            self._reason, self._check = reason, check
            waiting, self._waiting = self._waiting, set()
        for each in waiting:
            each.set_result(None)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Future[None]]:
        """A future that is done as soon as there is a refusal."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            if self._check is not None:
                future.set_result(None)
            else:
                self._waiting.add(future)
        try:
            yield future
        finally:
            with self._lock:
                self._waiting.discard(future)

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
            since, self._since, self._reason, self._check = self._since, None, "", None
        if since is not None:
            log.info("the broker of %s is back after %.1f s", self.servers, time.monotonic() - since)
