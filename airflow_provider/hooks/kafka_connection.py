"""Reads the settings of a connection of type ``kafka``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_provider.integration.airflow_api.airflow_names import AirflowNotFoundException
from airflow_provider.kafka.settings import KafkaSettings, SettingsError


@contextmanager
def defined(conn_id: str) -> Iterator[None]:
    """For the block in which Airflow is asked for a connection.

    :raises SettingsError: if there is no such connection
    """
    try:
        yield
    # ImportError: outside of tasks, the first releases of Airflow 3.1 have no other source.
    except (AirflowNotFoundException, ImportError) as nowhere:
        raise SettingsError(conn_id, "", "is not defined") from nowhere


def settings_in(connection: Any, conn_id: str) -> KafkaSettings:
    """The settings in a connection. Airflow's form stores null for each empty field, which is left out here.

    :raises SettingsError: if they can't be used
    """
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = connection.extra  # reported by the settings
    if isinstance(extra, dict):
        extra = {key: value for key, value in extra.items() if value is not None}
    return KafkaSettings.from_extra(extra, conn_id=conn_id)
