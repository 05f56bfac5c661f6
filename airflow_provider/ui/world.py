"""What the page's routes work with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fastapi import HTTPException, Request, status

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ui.airflow_log import note_in_audit_log
from airflow_provider.ui.answers import Answers
from airflow_provider.ui.connections import Connections
from airflow_provider.ui.declared import configured_prefixes
from airflow_provider.ui.watching import WatchedGroup, Watches


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """:param connections: the clusters that may be shown
    :param note: writes what was done into Airflow's audit log: its name, by whom, and the rest as JSON
    :param prefixes: gives the import prefixes of jobs that may be imported here
    """

    connections: Connections
    note: Callable[[str, str, str], None] = note_in_audit_log
    prefixes: Callable[[], Sequence[str]] = configured_prefixes
    watches: Watches = field(default_factory=Watches)
    answers: Answers = field(default_factory=Answers)

    def settings(self, conn: str) -> KafkaSettings:
        """:raises HTTPException: for a connection that is not shown, or can't be used"""
        settings = self.connections.all().get(conn)
        if settings is None:
            raise HTTPException(
                status.HTTP_404_NOT_FOUND,
                f"this page shows no connection {conn!r}: it shows those of type kafka in Airflow, or those that"
                " page_connections in the section [cooperative_spark] of Airflow's configuration names",
            )
        if isinstance(settings, str):
            raise HTTPException(status.HTTP_409_CONFLICT, settings)
        return settings

    def group(self, conn: str, group: str) -> WatchedGroup | None:
        """A group; None: its reading is about to begin."""
        return self.watches.of(self.settings(conn)).look(group)

    def begin(self, conn: str, group: str) -> None:
        """Have a group's reading begin, if it may be shown."""
        settings = self.connections.all().get(conn)
        if settings is not None and not isinstance(settings, str):
            self.watches.of(settings).look(group)


def world_of(request: Request) -> World:
    world: World = request.app.state.world
    return world
