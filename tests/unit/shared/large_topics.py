"""Topics whose end is not reached in the first times for which it is waited."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from stand_ins import MemoryTopics

from airflow_provider.kafka.topics.errors import TopicTimeoutError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.state.views.group_view import ChangingView

END: Final = 22_503


class LargeTopics(MemoryTopics):
    """Topics of which so much is read in each of these times.

    :param read: the offset of the status topic at first, and after each time
    :param unread: of the jobs topic, of which nothing is read
    :ivar waits: how often their end was waited for
    """

    def __init__(self, *read: int, unread: int = 0) -> None:
        super().__init__()
        feed = self._memory
        self._status = SimpleNamespace(offset=read[0], snapshot=feed.status.snapshot)
        self._jobs = SimpleNamespace(offset=0, snapshot=feed.jobs.snapshot)
        self._later = list(read[1:])
        self._unread = unread
        self.waits = 0

    def _followed(self) -> Any:
        return SimpleNamespace(jobs=self._jobs, status=self._status)

    def _open(self) -> Any:
        async def end_offsets(_topics: tuple[str, str], *, timeout_s: float) -> dict[str, int]:
            return {self.names.jobs: self._unread, self.names.status: END}

        return SimpleNamespace(admin=SimpleNamespace(end_offsets=end_offsets))

    async def catch_up(self, *, timeout_s: float | None = None) -> None:
        await FollowedTopics.catch_up(self, timeout_s=timeout_s)

    async def _wait(
        self,
        holds: Callable[[], bool],
        *,
        timeout_s: float | None,
        waiting_for: str,
        seen: ChangingView | None = None,
    ) -> None:
        self.waits += 1
        if self._later:
            self._status.offset = self._later.pop(0)
        if not holds():
            raise TopicTimeoutError(f"{waiting_for}: not in time")
