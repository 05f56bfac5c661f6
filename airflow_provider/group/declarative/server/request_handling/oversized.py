"""Remembers jobs that are too large for a record, so that they are not tried again: after each try the shard has to be
loaded again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from airflow_provider.values.model import Tasks

log: Final = logging.getLogger(__name__)


class Oversized:
    """The oversized jobs of one shard. It outlives the state machine, which is discarded after a failed transaction."""

    def __init__(self) -> None:
        self._jobs: dict[str, Tasks] = {}

    def note_jobs(self, jobs: Mapping[str, Tasks]) -> None:
        """Note changes of configured tasks that may have led to a record that is too large, or to a failure."""
        self._jobs.update(jobs)

    def has_jobs(self, group: str, tasks: Tasks) -> bool:
        """Whether these configured tasks were noted. Then the group keeps its former ones."""
        if self._jobs.get(group) != tasks:
            return False
        log.warning(
            "the %d tasks of group %r are too many for a record, or could not be handled: it keeps its former ones",
            len(tasks),
            group,
        )
        return True
