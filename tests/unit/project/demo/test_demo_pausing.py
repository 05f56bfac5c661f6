"""A process is stopped at a moment at which it keeps nobody from writing."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from waiting import DEADLINE_S, wait_until

from demo.databases import SqliteDatabase
from demo.pausing import paused
from demo.processes import KeptProcess

_WRITES = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
while True:
    database.execute("BEGIN IMMEDIATE")
    print("writes", flush=True)
    time.sleep(0.3)
    database.execute("COMMIT")
    time.sleep(0.3)
"""


def test_whoever_is_paused_keeps_nobody_from_writing(tmp_path: Path) -> None:
    file, log = tmp_path / "database", tmp_path / "writer.log"
    command = [sys.executable, "-c", _WRITES, str(file)]
    writer = KeptProcess("writer", command, env={}, folder=tmp_path, log_file=log)
    try:
        wait_until(lambda: "writes" in log.read_text(), what=log.read_text)
        for _ in range(3):
            with (
                paused(writer, SqliteDatabase(file).can_be_written, timeout_s=DEADLINE_S),
                closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database,
            ):
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
    finally:
        writer.kill()
