"""Who counts what happens to a worker, and to its group as far as that is seen from here: a port."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider.protocol.holding import StopReason

if TYPE_CHECKING:
    from airflow_provider.topics.group_topics import GroupTopics


class Witness(Protocol):
    """Of one worker. Called on the event loop; must not block or raise."""

    def watching(self, topics: GroupTopics) -> AbstractAsyncContextManager[object]:
        """Look on, as long as the worker is held.

        :param topics: of its group, read to their ends
        """

    def lease_ended(self, reason: StopReason) -> None:
        """The worker had to stop all that it had."""


class _Nobody:
    def watching(self, _topics: GroupTopics) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    def lease_ended(self, _reason: StopReason) -> None: ...


UNWITNESSED: Final[Witness] = _Nobody()
"""Nobody counts."""
