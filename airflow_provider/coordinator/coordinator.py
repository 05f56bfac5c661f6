"""The coordinator of one shard of groups."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider.coordinator.events import Effects, Event
from airflow_provider.coordinator.settings import CoordinatorSettings
from airflow_provider.coordinator.state import GroupState
from airflow_provider.declarative.wire.records import Record


class Coordinator:
    """One thread uses it. It has no clock, and does no I/O."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.settings = settings
        self._groups: dict[str, GroupState] = {}

    @property
    def groups(self) -> Mapping[str, GroupState]:
        """To be looked at."""
        return self._groups

    def replay(self, record: Record) -> None:
        """Apply a record that another coordinator has written: while loading, before :meth:`loaded`.

        :raises RemoteProtocolError: its value makes no sense
        """
        raise NotImplementedError

    def loaded(self, now_ms: int) -> Effects:
        """Begin to coordinate: all records are replayed, and every member gets a fresh session."""
        raise NotImplementedError

    def handle(self, event: Event) -> Effects:
        """What is to be done about it. Time does not go back from one call to the next."""
        raise NotImplementedError
