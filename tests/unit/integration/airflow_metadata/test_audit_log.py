"""Entries of Airflow's audit log, in a database that others write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import OperationalError as LockedError

import pytest
from airflow.models.log import Log
from airflow.utils import session as sessions
from sqlalchemy.exc import OperationalError

from airflow_provider.integration.airflow_metadata.audit_log import note_in_audit_log


class Database:
    """Refuses the first entries."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.entries: list[Log] = []

    @contextmanager
    def session(self) -> Iterator[Database]:
        self._added: list[Log] = []
        yield self
        if self._refusals:
            self._refusals -= 1
            raise OperationalError("INSERT INTO log", None, LockedError("database is locked"))
        self.entries += self._added

    def add(self, entry: Log) -> None:
        self._added.append(entry)


def test_an_entry_that_a_busy_database_refuses_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(refusals=1)
    monkeypatch.setattr(sessions, "create_session", database.session)
    note_in_audit_log("cospark_pause", "ann", "{}")
    assert [(entry.event, entry.owner) for entry in database.entries] == [("cospark_pause", "ann")]


def test_one_that_it_never_takes_is_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(refusals=100)
    monkeypatch.setattr(sessions, "create_session", database.session)
    with pytest.raises(OperationalError, match="database is locked"):
        note_in_audit_log("cospark_pause", "ann", "{}")
    assert not database.entries
