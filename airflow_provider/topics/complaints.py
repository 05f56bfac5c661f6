"""Says which records of a topic can't be read: of many that are read together in one line, with their number."""

from __future__ import annotations

import logging
import threading
from typing import Final

from airflow_provider.ledger.topic_view import Unreadable

log: Final = logging.getLogger(__name__)


class Complaints:
    """Heard by the thread that reads the topic; told there, or wherever all has been read.

    :param topic: its name
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._heard: list[Unreadable] = []
        self._lock = threading.Lock()

    def add(self, record: Unreadable) -> None:
        with self._lock:
            self._heard.append(record)

    def tell(self) -> None:
        """Log what has come together."""
        with self._lock:
            heard, self._heard = self._heard, []
        if len(heard) == 1:
            log.warning("%s: %s", self._topic, heard[0])
        elif heard:
            log.warning(
                "%s: %d records from offset %d to %d can't be read and are skipped; the first one: %s",
                self._topic,
                len(heard),
                min(record.offset for record in heard),
                max(record.offset for record in heard),
                heard[0],
            )
