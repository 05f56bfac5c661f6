"""The clusters that the page shows: connections of type ``kafka`` in Airflow."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from airflow_provider.common.airflow_names import AirflowException
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

_LOOK_AGAIN_S: Final = 30.0
_MOST: Final = 20
_PREFIX: Final = "AIRFLOW_CONN_"


class Connections:
    """The connections. Airflow is asked for them every 30 seconds, not at each question.

    :param names: returns the ids of those that may be shown
    :param settings_of: returns a connection's settings
    """

    def __init__(
        self,
        names: Callable[[], list[str]],
        settings_of: Callable[[str], KafkaSettings],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._names = names
        self._settings_of = settings_of
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[str, KafkaSettings | str] | None = None
        self._look_at = 0.0

    def all(self) -> Mapping[str, KafkaSettings | str]:
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
                self._known = {name: self._look(name) for name in self._names()[:_MOST]}
                self._look_at = self._clock() + _LOOK_AGAIN_S
            return self._known
        finally:
            self._lock.release()

    def _look(self, name: str) -> KafkaSettings | str:
        try:
            return self._settings_of(name)
        except (SettingsError, AirflowException) as wrong:
            return str(wrong)


def of_airflow() -> Connections:
    """The connections that are configured (``page_connections``), or else all of type ``kafka`` in the database and the
    environment; other secrets backends can't list theirs.
    """
    return Connections(_names, lambda name: SparkGroupHook(name).get_settings())


def _names() -> list[str]:
    from airflow.configuration import conf

    named: Any = conf.getlist("cooperative_spark", "page_connections", fallback=[])
    if named:
        return list(dict.fromkeys(named))
    return sorted({*_in_database(), *_in_environment()})


def _in_database() -> list[str]:
    from airflow.models import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(Connection.conn_id).where(Connection.conn_type == SparkGroupHook.conn_type)
        return [name for name in session.scalars(query) if name is not None]


def _in_environment() -> list[str]:
    found = []
    for key, value in os.environ.items():
        if key.startswith(_PREFIX) and _kind_of(value) == SparkGroupHook.conn_type:
            found.append(key.removeprefix(_PREFIX).lower())
    return found


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
