"""All tasks of a group, ready for pages to be cut out of them. To look through 100,000 takes a second: so that is done
not all the time, however often the group changes and however many look on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ui.views.tasks import FoundTask, found_tasks

_REST: Final = 5
"""Between two looks everything else has so many times as long as one takes."""


class Kept(NamedTuple):
    """The tasks as they were.

    :param version: of the group, when they were looked through
    """

    version: str
    tasks: Sequence[FoundTask]


NOTHING_KEPT: Final = Kept("", ())


class KeptTasks:
    """Safe for threads: of those who ask together one looks, and the others wait for that."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: Kept | None = None
        self._look_again_at = 0.0

    def of(self, version: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Kept:
        """As they are now, or were a moment ago."""
        with self._lock:
            began = self._clock()
            if self._kept is None or (self._kept.version != version and began >= self._look_again_at):
                self._kept = Kept(version, found_tasks(jobs, status))
                ended = self._clock()
                self._look_again_at = ended + _REST * (ended - began)
            return self._kept
