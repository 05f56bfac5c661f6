"""Writes to Airflow's audit log."""

from __future__ import annotations


def note_in_audit_log(event: str, by: str, extra: str) -> None:
    """Write an entry.

    :param event: what was done
    :param by: the user's name
    :param extra: more about it, as JSON
    """
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Log(event=event, owner=by, owner_display_name=by, extra=extra))
