"""Logs that a member gets no answers: once when that begins, and once when it is back in its group."""

from __future__ import annotations

import logging
import time
from enum import Enum
from typing import Final

from airflow_provider.values.model import WorkerId

log: Final = logging.getLogger(__name__)


class Silence:
    """Whether one member gets answers from its coordinator."""

    def __init__(self, group_id: str, worker: WorkerId) -> None:
        self._group_id = group_id
        self._worker = worker
        self._since: float | None = None

    def unanswered(self, request: Enum, cause: str) -> None:
        """Note a request without an answer; only the first one is logged."""
        if self._since is None:
            self._since = time.monotonic()
            log.warning(
                "group %s, worker %s: %s was not answered (%s); trying again until it is",
                self._group_id,
                self._worker,
                request.value,
                cause,
            )

    def over(self) -> None:
        """Note that the member is certainly in its group."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            self._since = None
            log.info("group %s, worker %s: back in the group after %.1f s", self._group_id, self._worker, seconds)
