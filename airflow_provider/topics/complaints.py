"""Says which records of a topic can't be read: of many that are read together in one line, with their number."""

from __future__ import annotations

import logging
from typing import Final

from airflow_provider.ledger.topic_view import Unreadable

log: Final = logging.getLogger(__name__)


class Complaints:
    """Heard and said by the thread that reads the topic.

    :param topic: its name
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._heard: list[Unreadable] = []

    def add(self, record: Unreadable) -> None:
        self._heard.append(record)

    def tell(self) -> None:
        """Log what has come together."""
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
