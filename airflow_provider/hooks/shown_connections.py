"""The clusters that the page shows: connections of type ``kafka`` in Airflow."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from airflow_provider.common.airflow_names import AirflowException
from airflow_provider.common.airflow_teams import all_teams, has_teams
from airflow_provider.hooks.kafka_connection import defined, settings_in
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

_LOOK_AGAIN_S: Final = 30.0
_MOST: Final = 20
_PREFIX: Final = "AIRFLOW_CONN_"
_AFTER_THE_TEAM: Final = "___"
"""As in the names of Airflow's environment variables of teams: ``AIRFLOW_CONN__<TEAM>___<ID>``."""


@dataclass(frozen=True, slots=True)
class Named:
    """A connection.

    :param team: whose DAGs alone can use it; None: those of every team
    """

    conn_id: str
    team: str | None = None


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
                self._known = {name: self._look(name) for name in islice(self._names(), _MOST)}
                self._look_at = self._clock() + _LOOK_AGAIN_S
            return self._known
        finally:
            self._lock.release()

    def _look(self, name: Named) -> KafkaSettings | str:
        try:
            return self._settings_of(name)
        except (SettingsError, AirflowException) as wrong:
            return str(wrong)


def of_airflow() -> Connections:
    """The connections that are configured (``page_connections``), or else all of type ``kafka`` in the database and the
    environment; other secrets backends can't list theirs.
    """
    return Connections(_names, _settings_of)


def _settings_of(name: Named) -> KafkaSettings:
    if name.team is None:
        return SparkGroupHook(name.conn_id).get_settings()
    from airflow.models import Connection

    with defined(name.conn_id):
        connection = Connection.get_connection_from_secrets(name.conn_id, team_name=name.team)
    return settings_in(connection, name.conn_id)


def _names() -> list[Named]:
    from airflow.configuration import conf

    wanted: Any = list(dict.fromkeys(conf.getlist("cooperative_spark", "page_connections", fallback=[])))
    if not wanted:
        return sorted({*_in_database([]), *_in_environment()}, key=_by_id)
    found = sorted({*_in_database(wanted), *_in_environment()}, key=_by_id)
    return [one for name in wanted for one in [each for each in found if each.conn_id == name] or [Named(name)]]


def _by_id(name: Named) -> tuple[str, str]:
    return name.conn_id, name.team or ""


def _in_database(wanted: list[str]) -> list[Named]:
    """:param wanted: the ids of those to look for; none: all of our type"""
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import null, select

    team = Connection.team_name if has_teams() else null()
    ours = Connection.conn_id.in_(wanted) if wanted else Connection.conn_type == SparkGroupHook.conn_type
    with create_session() as session:
        return [Named(name, of) for name, of in session.execute(select(Connection.conn_id, team).where(ours)) if name]


def _in_environment() -> Iterator[Named]:
    teams = {team.upper(): team for team in all_teams()}
    for key, value in os.environ.items():
        if not key.startswith(_PREFIX) or _kind_of(value) != SparkGroupHook.conn_type:
            continue
        name = key.removeprefix(_PREFIX)
        team, separator, of_team = name.removeprefix("_").partition(_AFTER_THE_TEAM)
        if not has_teams() or not separator:
            yield Named(name.lower())
        elif name.startswith("_") and team in teams:
            yield Named(of_team.lower(), teams[team])


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
