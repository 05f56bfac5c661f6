"""What a user is shown and may change. Connections are found here alone, so that no route can forget to ask."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from fastapi import HTTPException, status

from airflow_provider.hooks.shown_connections import Named
from airflow_provider.integration.operator_parameters.parameters import group_name
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ui.shared_reading.watching import WatchedGroup
from airflow_provider.ui.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request of a user.

    :param by: the user's name
    :param sees: whose connections the user may see: teams, and None for those that all teams share
    :param does: on whose groups the user may do what the route does; likewise
    :param needed: what else is needed for it, in words
    """

    world: World
    by: str
    sees: Set[str | None]
    does: Set[str | None]
    needed: str

    def connections(self) -> Mapping[Named, KafkaSettings | str]:
        """Those that the user may see, see :meth:`Connections.all`."""
        return {name: known for name, known in self.world.connections.all().items() if name.team in self.sees}

    def settings(self, conn: str, group: str) -> KafkaSettings:
        """The settings of a group's connection, see :meth:`connection`."""
        return self.connection(conn, group)[1]

    def connection(self, conn: str, group: str) -> tuple[Named, KafkaSettings]:
        """A group's connection, and its settings.

        The connection is chosen among those that the user may see. Only then is the right to do more checked.

        :param conn: its name on the page
        :raises HTTPException: for an invalid group name, for a connection that the user is not shown or that can't be
            used, and without the right
        """
        try:
            group_name(group)
        except ValueError as wrong:
            raise HTTPException(status.HTTP_404_NOT_FOUND, str(wrong)) from wrong
        shown = next(((name, known) for name, known in self.connections().items() if str(name) == conn), None)
        if shown is None:
            raise HTTPException(
                status.HTTP_404_NOT_FOUND,
                f"this page shows you no connection {conn!r}: it shows those of type kafka in Airflow, or those that"
                " page_connections in the section [cooperative_spark] of Airflow's configuration names, if you may see"
                " the tasks of all DAGs that can use them",
            )
        name, settings = shown
        if name.team not in self.does:
            raise HTTPException(status.HTTP_403_FORBIDDEN, self.needed)
        if isinstance(settings, str):
            raise HTTPException(status.HTTP_409_CONFLICT, settings)
        return name, settings

    def group(self, conn: str, group: str) -> WatchedGroup | None:
        """A group; None: reading it is about to begin.

        :raises HTTPException: see :meth:`connection`
        """
        return self.world.watches.of(self.settings(conn, group)).look(group)

    def conn_of(self, conn_id: str, team: str | None) -> str:
        """The name on the page of the connection that a DAG of this team means by this id."""
        its_own, shown = Named(conn_id, team), self.connections()
        return str(next((name for name in (its_own, Named(conn_id)) if name in shown), its_own))
