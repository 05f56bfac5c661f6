"""Tests with PostgreSQL: those that always need it, and the system tests, whose Airflow may keep its metadata there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from demo.databases import Database
from demo.postgres import PACKAGE, LocalPostgres, programs

needs_postgresql: Final = pytest.mark.skipif(
    programs() is None, reason=f"PostgreSQL's server is not installed: Debian's package is {PACKAGE}"
)
DATABASE: Final = os.environ.get("COSPARK_DATABASE") or "sqlite"
"""Where the Airflow of system tests keeps its metadata."""


@contextmanager
def chosen_database(home: Path, kind: str = DATABASE) -> Iterator[Database | None]:
    """A database for an Airflow; None for the one that it has by itself.

    :param home: the Airflow's folder, which gets the server's log
    :param kind: sqlite or postgresql
    """
    match kind:
        case "sqlite":
            yield None
        case "postgresql":
            with LocalPostgres(home / "logs" / "postgresql.log") as server:
                yield server.database
        case _:
            raise pytest.UsageError(f"COSPARK_DATABASE is {kind!r}: sqlite or postgresql")
