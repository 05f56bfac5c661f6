"""Knows whether brokers can be reached, and if not, whether people must act.

It logs one line when they can't be reached any more, and one when they are back, however many tries are in between.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from airflow_provider.kafka.topics.errors import RefusedError

log: Final = logging.getLogger(__name__)


class Outage:
    """Whether the brokers of one connection can be reached. Thread-safe.

    :param servers: the connection's bootstrap servers, for the log
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._lock = threading.Lock()
        self._since: float | None = None
        self._answered_at = 0.0
        self._reason = ""
        self._check: str | None = None
        self._waiting: set[Future[None]] = set()

    @property
    def away(self) -> bool:
        """Whether no broker can be reached."""
        return self._since is not None

    @property
    def reason(self) -> str:
        """The last error; empty if a broker has answered since."""
        return self._reason

    def trouble(self, reason: str) -> None:
        """Note that one connection to a broker has failed. Others may work."""
        self._reason = reason

    @property
    def refusal(self) -> RefusedError | None:
        """Why waiting does not help: a broker has refused the credentials, or its certificate is not trusted, and no
        broker has answered since. None: waiting may help.
        """
        with self._lock:
            return None if self._check is None else RefusedError(self.servers, self._reason, self._check)

    def refused(self, reason: str, check: str) -> None:
        """Note that a broker has refused the credentials, or that its certificate is not trusted.

        :param check: what people should check
        """
        with self._lock:
            self._reason, self._check = reason, check
            waiting, self._waiting = self._waiting, set()
        for each in waiting:
            each.set_result(None)

    @contextlib.contextmanager
    def watch(self) -> Iterator[Future[None]]:
        """Get a future that is done as soon as there is a refusal."""
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

    def went_away(self, reason: str, *, asked_at: float | None = None) -> None:
        """Note that no broker can be reached, and log it.

        :param asked_at: when one was asked in vain (``time.monotonic``): this is old news if one has answered since
        """
        with self._lock:
            if self._since is not None or (asked_at is not None and asked_at < self._answered_at):
                return
            self._since = time.monotonic()
            self._reason = self._reason or reason
        log.warning("no broker of %s can be reached (%s); trying again until one can", self.servers, self._reason)

    def is_back(self) -> None:
        """Note that a broker has answered, and log it after an outage."""
        with self._lock:
            self._answered_at = time.monotonic()
            since, self._since, self._reason, self._check = self._since, None, "", None
        if since is not None:
            log.info("the broker of %s is back after %.1f s", self.servers, time.monotonic() - since)
