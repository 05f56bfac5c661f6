"""The queries and sessions of a Spark Connect server, as the server itself reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from waiting import eventually

from airflow_provider.spark.connect.client import hang_up, open_session
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings


def active_queries(server: str, session_id: str, *, token: str = "") -> list[str]:
    """The run ids of the active queries in this session. The session is created if it does not exist.

    :param server: the URL of the server
    :param token: what it asks for
    """
    return _asked(server, session_id, token) or []


def is_closed(server: str, session_id: str) -> bool:
    """Whether the server has ended this session, and accepts no calls in it. It is created if it does not exist."""
    return _asked(server, session_id) is None


def _asked(server: str, session_id: str, token: str = "") -> list[str] | None:
    """The run ids of the active queries; None: the server has ended the session."""
    settings = ConnectSettings(server=ConnectServer.parse(server), token=token)
    session = open_session(settings, "cospark/test", session_id)
    try:
        return [str(query.runId) for query in session.streams.active]
    except Exception as gone:
        if "SESSION_CLOSED" in str(gone):
            return None
        if "OPERATION_CANCELED" not in str(gone):
            raise
    finally:
        hang_up(session)
    return _asked(server, session_id, token)  # somebody who ends the session has interrupted this call, too


def is_being_ended(server: str, session_id: str) -> bool:
    """Whether somebody is ending this session: no query can start in it any more."""
    session = open_session(ConnectSettings(server=ConnectServer.parse(server)), "cospark/test", session_id)
    try:
        return str(session.conf.get("spark.sql.streaming.checkpointFileManagerClass", "")).startswith("this.session")
    finally:
        hang_up(session)


async def nothing_runs(server: str, handle: Mapping[str, Any]) -> None:
    """Wait until the server has ended the session of this handle."""

    def ended() -> bool:
        return not active_queries(server, handle["session_id"])

    await eventually(ended, "the server has closed its session")
