"""Logs which records of a topic can't be read: many that are read together in one line, with their number."""

from __future__ import annotations

import logging
from typing import Final

from airflow_provider.state.views.topic_view import Unreadable

log: Final = logging.getLogger(__name__)


class Complaints:
    """Collects unreadable records, and logs them. Used in the thread that reads the topic.

    :param topic: the topic's name
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._heard: list[Unreadable] = []

    def add(self, record: Unreadable) -> None:
        self._heard.append(record)

    def tell(self) -> None:
        """Log the records that were added since the last call."""
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
