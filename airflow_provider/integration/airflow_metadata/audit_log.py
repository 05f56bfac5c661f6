"""Writes to Airflow's audit log."""

from __future__ import annotations


def note_in_audit_log(event: str, by: str, extra: str) -> None:
    """Write an entry. If the database refuses it, this is tried again, as Airflow does it: with SQLite, connections of
    the API server may wait for each other until one is refused.

    :param event: what was done
    :param by: the user's name
    :param extra: more about it, as JSON
    :raises sqlalchemy.exc.DBAPIError: the database has refused it ``[database] max_db_retries`` times
    """
    from airflow.models.log import Log
    from airflow.utils.retries import run_with_db_retries
    from airflow.utils.session import create_session

    for attempt in run_with_db_retries():
        with attempt, create_session() as session:
            session.add(Log(event=event, owner=by, owner_display_name=by, extra=extra))
