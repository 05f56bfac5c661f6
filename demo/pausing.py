"""Stops a process that shares a SQLite database with others, as if its machine stalled."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from demo.processes import KeptProcess, ProcessFailedError

_LONGEST_WRITE_S: Final = 1
"""Who keeps others from writing for so many seconds is taken for the one that was stopped."""
_BETWEEN_TRIES_S: Final = 0.1


@contextmanager
def paused(process: KeptProcess, database: Path, *, timeout_s: float) -> Iterator[None]:
    """Stop a command and its descendants (SIGSTOP) while they hold no lock of the database, and have them go on
    afterwards. With a lock, they would keep all others from writing.

    :param timeout_s: how long to try
    :raises ProcessFailedError: if they hold a lock each time
    """
    give_up = time.monotonic() + timeout_s
    process.pause()
    try:
        while not _can_be_written(database):
            if time.monotonic() > give_up:
                raise ProcessFailedError(f"{process.name} could not be paused: each time, the database was locked")
            process.resume()
            time.sleep(_BETWEEN_TRIES_S)
            process.pause()
        yield
    finally:
        process.resume()


def _can_be_written(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=_LONGEST_WRITE_S, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.execute("ROLLBACK")
    return True
