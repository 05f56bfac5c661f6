"""The session of a task on a Spark Connect server that a test makes up."""

from __future__ import annotations

from airflow_provider.spark.connect.connection import ConnectedServer, ServerConnection
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.runners.connect_task_session import ConnectSession


def session_on(server: ConnectedServer, settings: ConnectSettings) -> ConnectSession:
    session = ConnectSession(
        ServerConnection(settings, "w"),
        settings,
        Parcels(),
        name="a:0",
        session_id="s",
        check_owner=lambda: None,
        tell_every_s=1,
    )
    session.spark = server
    return session
