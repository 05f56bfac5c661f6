"""A group as somebody sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot


class GroupView(Protocol):
    """What is known of a group now: from its topics, or from its coordinator, too."""

    @property
    def jobs(self) -> JobsSnapshot: ...

    @property
    def status(self) -> StatusSnapshot: ...


class ChangingView(GroupView, Protocol):
    """The same, and it tells when that changes."""

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after each change, until the function is called that this returns."""
