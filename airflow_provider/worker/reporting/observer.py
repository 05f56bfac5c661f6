"""The port for metrics: observes a worker, and its group as far as this process sees it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol

from airflow_provider.group.held_tasks import StopReason

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.topic_writer import GroupTopics


class Observer(Protocol):
    """Observes one worker. Called on the event loop; must not block or raise."""

    def watching(self, topics: GroupTopics) -> AbstractAsyncContextManager[object]:
        """Observe the group while the worker is held.

        :param topics: the group's topics, read to their ends
        """

    def lease_ended(self, reason: StopReason) -> None:
        """The worker had to stop all its tasks."""


class _Nobody:
    def watching(self, _topics: GroupTopics) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    def lease_ended(self, _reason: StopReason) -> None: ...


UNOBSERVED: Final[Observer] = _Nobody()
"""No metrics."""
