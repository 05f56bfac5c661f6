"""Where an Airflow keeps its metadata."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

from airflow_provider.servers.jars import default_cache

_LONGEST_WRITE_S: Final = 1
"""Who keeps others from writing for so many seconds is taken for the one that was stopped."""


class Database(Protocol):
    """What :class:`~demo.airflow.LocalAirflow` needs of a database that is there, but empty."""

    def url(self, *, lock_timeout_s: int) -> str:
        """For SQLAlchemy.

        :param lock_timeout_s: how long a component waits for another one, where one write locks all there is
        """

    def make(self, migrate: Callable[[], None]) -> None:
        """Make the tables.

        :param migrate: has Airflow make them
        """

    def can_be_written(self) -> bool:
        """Whether nobody keeps all others from writing."""


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """:param file: made with the tables"""

    file: Path

    def url(self, *, lock_timeout_s: int) -> str:
        return f"sqlite:///{self.file}?timeout={lock_timeout_s}"

    def make(self, migrate: Callable[[], None]) -> None:
        """Copy the first one that this version of Airflow has made: all are the same, and to make one takes a while."""
        made = default_cache() / "airflow" / f"metadata-{version('apache-airflow')}.db"
        if not made.exists():
            migrate()
            # By default a reader blocks writers, and two that read and write wait for each other until they give up.
            with closing(sqlite3.connect(self.file)) as database:
                database.execute("PRAGMA journal_mode = WAL")
            made.parent.mkdir(parents=True, exist_ok=True)
            unfinished = made.with_name(f"{made.name}.{os.getpid()}")
            shutil.copy(self.file, unfinished)
            unfinished.rename(made)
        shutil.copy(made, self.file)

    def can_be_written(self) -> bool:
        with closing(sqlite3.connect(self.file, timeout=_LONGEST_WRITE_S, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            database.execute("ROLLBACK")
        return True


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """:param address: as SQLAlchemy takes it; has the password, and is not shown"""

    address: str

    def __repr__(self) -> str:
        return "<PostgresDatabase>"

    def url(self, *, lock_timeout_s: int) -> str:  # noqa: ARG002  rows are locked, and only for who writes the same
        return self.address

    def make(self, migrate: Callable[[], None]) -> None:
        migrate()

    def can_be_written(self) -> bool:
        return True
