"""The clusters that the page shows: connections of type ``kafka`` in Airflow."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.hooks.kafka_connection import settings_in
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowException
from airflow_provider.integration.airflow_api.airflow_teams import all_teams, has_teams
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

_LOOK_AGAIN_S: Final = 30.0
_MOST: Final = 20
_PREFIX: Final = "AIRFLOW_CONN_"
_AFTER_THE_TEAM: Final = "___"
"""As in the names of Airflow's environment variables of teams: ``AIRFLOW_CONN__<TEAM>___<ID>``."""
_KIND: Final = SparkGroupHook.conn_type
_OF: Final = "@"
"""Not in the id of any connection that is made in Airflow's UI, nor in any team's name."""


@dataclass(frozen=True, slots=True)
class Named:
    """A connection. As a text, its unique name on the page: several teams may have connections of the same id.

    :param team: whose DAGs alone can use it; None: those of every team
    """

    conn_id: str
    team: str | None = None

    def __str__(self) -> str:
        return self.conn_id if self.team is None else f"{self.conn_id}{_OF}{self.team}"


class Connections:
    """The connections. Airflow is asked for them every 30 seconds, not at each question.

    :param names: returns those that may be shown
    :param settings_of: returns a connection's settings
    """

    def __init__(
        self,
        names: Callable[[], Iterable[Named]],
        settings_of: Callable[[Named], KafkaSettings],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._settings_of = settings_of
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[Named, KafkaSettings | str] | None = None
        self._look_at = 0.0

    def all(self) -> Mapping[Named, KafkaSettings | str]:
        """The settings of each connection, or why it can't be used.

        One thread looks them up, which may take long in a secrets backend. Others get the last known ones meanwhile.
        """
        known = self._known
        if known is not None and self._clock() < self._look_at:
            return known
        if not self._lock.acquire(blocking=known is None):
            return known or {}
        try:
            if self._known is None or self._clock() >= self._look_at:
                self._known = {name: self._look(name) for name in _not_too_many(self._names())}
                self._look_at = self._clock() + _LOOK_AGAIN_S
            return self._known
        finally:
            self._lock.release()

    def _look(self, name: Named) -> KafkaSettings | str:
        try:
            return self._settings_of(name)
        except (SettingsError, AirflowException, PermissionError) as wrong:  # a secrets backend may deny it
            return str(wrong)


def of_airflow() -> Connections:
    """The connections that are configured (``page_connections``), or else all of type ``kafka`` in the database and the
    environment; other secrets backends can't list theirs.
    """
    return Connections(_names, _settings_of)


def _not_too_many(names: Iterable[Named]) -> Iterator[Named]:
    """The first ones of each team, so that no team hides another's."""
    counted: defaultdict[str | None, int] = defaultdict(int)
    for name in names:
        counted[name.team] += 1
        if counted[name.team] <= _MOST:
            yield name


def _names() -> list[Named]:
    from airflow.configuration import conf

    configured: Any = conf.getlist("cooperative_spark", "page_connections", fallback=[])
    if configured:
        found = [_named(text) for text in dict.fromkeys(configured)]
    else:
        found = sorted({*_in_database(), *_in_environment()}, key=str)
    return [name for name in found if not has_teams() or _OF not in name.conn_id]  # no two have the same name


def _named(text: str) -> Named:
    conn_id, of, team = text.rpartition(_OF)
    return Named(conn_id, team) if of and has_teams() else Named(text)


def _in_database() -> list[Named]:
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import null, select

    team = Connection.team_name if has_teams() else null()
    with create_session() as session:
        query = select(Connection.conn_id, team).where(Connection.conn_type == SparkGroupHook.conn_type)
        return [Named(conn_id, of) for conn_id, of in session.execute(query) if conn_id is not None]


def _in_environment() -> Iterator[Named]:
    found = [key for key, value in os.environ.items() if key.startswith(_PREFIX) and _kind_of(value) == _KIND]
    for team in (None, *all_teams()):
        prefix = _variable(Named("", team))
        for key in found:
            conn_id = key.removeprefix(prefix).lower()
            if key.startswith(prefix) and not (has_teams() and _AFTER_THE_TEAM in conn_id):
                yield Named(conn_id, team)


def _variable(name: Named) -> str:
    of = "" if name.team is None else f"_{name.team.upper()}{_AFTER_THE_TEAM}"
    return f"{_PREFIX}{of}{name.conn_id.upper()}"


def _settings_of(name: Named) -> KafkaSettings:
    """A team's connection is read from where it is defined. Asked for its id, Airflow may return a connection without a
    team, and only people who may see the groups of all teams may see its groups.
    """
    if name.team is None:
        return SparkGroupHook(name.conn_id).get_settings()
    from airflow.models import Connection
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend
    from airflow.utils.session import create_session
    from sqlalchemy import select

    variable = os.environ.get(_variable(name))
    if variable:
        try:
            connection = EnvironmentVariablesBackend().deserialize_connection(name.conn_id, variable)
        except ValueError as wrong:
            raise SettingsError(str(name), "", "its environment variable can't be read") from wrong
        return settings_in(connection, str(name))
    its_own = select(Connection).where(Connection.conn_id == name.conn_id, Connection.team_name == name.team)
    with create_session() as session:
        connection = session.scalar(its_own)
        if connection is None:
            raise SettingsError(str(name), "", "is not defined")
        return settings_in(connection, str(name))


def _kind_of(connection: str) -> object:
    """The type of a connection.

    :param connection: as JSON, or as a URI
    """
    if not connection.startswith("{"):
        return connection.partition("://")[0]
    try:
        return json.loads(connection).get("conn_type")
    except ValueError:
        return None
