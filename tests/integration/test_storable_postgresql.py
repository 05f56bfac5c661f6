"""Values of job code in PostgreSQL, which takes less than other databases of Airflow's. By its own client, without
Airflow: what is shown is that the server takes each value, not how Airflow's driver sends it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from job_values import BAD, some_value

from airflow_provider.common.storable import storable

_BIN: Final = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
_OWNER: Final = "postgres"
"""The server refuses to run as root."""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(_BIN is None, reason="PostgreSQL is not installed on this machine"),
]


class Server:
    """A server of its own, reached by a socket in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, program: str, *arguments: str, fed: str = "") -> subprocess.CompletedProcess[bytes]:
        assert _BIN is not None
        as_owner: dict[str, Any] = {"user": _OWNER, "group": _OWNER, "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.run(
            [str(_BIN / program), *arguments],
            input=fed.encode(errors="surrogatepass"),
            capture_output=True,
            check=False,
            cwd=self._folder,
            **as_owner,
        )

    def errors(self, statements: Iterable[str]) -> list[str]:
        """What the server has against these statements."""
        done = self.run(
            "psql", "-h", str(self._folder), "-d", "postgres", "-q", "-f", "-", fed=";\n".join(statements) + ";\n"
        )
        return done.stderr.decode(errors="replace").splitlines()


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="cospark-pg"))  # short, for the socket's path
    if os.getuid() == 0:
        shutil.chown(folder, _OWNER, _OWNER)
    server, data = Server(folder), str(folder / "data")
    try:
        made = server.run("initdb", "-D", data, "-E", "UTF8", "--locale=C", "--no-sync", "-A", "trust")
        assert made.returncode == 0, made.stderr.decode()
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        server.run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        yield server
    finally:
        server.run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_two_thousand_values_of_job_code_are_taken(database: Server) -> None:
    assert not database.errors(["CREATE TABLE stored (seed int, xcom jsonb, extra json, text text)"])

    def statements() -> Iterator[str]:
        for seed in range(2_000):
            value = json.dumps(storable(some_value(random.Random(seed))))
            text = str(storable(json.dumps(value, ensure_ascii=False)))
            yield f"INSERT INTO stored VALUES ({seed}, {_quoted(value)}, {_quoted(value)}, {_quoted(text)})"
        yield "DO $$ BEGIN IF (SELECT count(*) FROM stored) <> 2000 THEN RAISE 'some are missing'; END IF; END $$"

    assert database.errors(statements()) == []


@pytest.mark.parametrize(
    ("kind", "value"), [("jsonb", json.dumps(BAD)), ("jsonb", "NaN"), ("text", "half of a pair: \ud800")]
)
def test_without_the_door_it_refuses_them(database: Server, kind: str, value: str) -> None:
    assert any("ERROR" in line for line in database.errors([f"SELECT {_quoted(value)}::{kind}"]))
