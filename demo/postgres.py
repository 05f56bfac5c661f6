"""A PostgreSQL server on this machine: on loopback only, with a password, and gone when its owner is."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

import psutil
from typing_extensions import Self

from airflow_provider.servers.own_process import HOST, hold_ports
from demo.airflow_api import WAIT_S
from demo.databases import PostgresDatabase
from demo.processes import KeptProcess, ProcessFailedError

PACKAGE: Final = "postgresql"
"""What Debian and Ubuntu call it."""

_SERVER_USER: Final = "postgres"
"""Made by the package. The server refuses to run as root."""
_USER: Final = "airflow"
_DATABASE: Final = "postgres"
_VERSIONS: Final = Path("/usr/lib/postgresql")
"""Where Debian keeps the programs of each version; they are not on the path."""
_END_S: Final = 20.0
_POLL_S: Final = 0.1

_OPTIONS: Final = (
    *("-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="),
    # Nothing in /dev/shm, where it would stay if the server is killed.
    *("-c", "dynamic_shared_memory_type=mmap"),
    # What it keeps is gone with it.
    *("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"),
)


def programs() -> Path | None:
    """The folder of the newest installed server's programs; None if there is none."""
    found = [server.parent for server in _VERSIONS.glob("*/bin/postgres")]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else None


class LocalPostgres:
    """A server that runs during a ``with`` block, on a free port, in a folder of its own, which it removes.

    :param log_file: the server's log, written as it comes
    :raises FileNotFoundError: if no server is installed
    """

    def __init__(self, log_file: Path) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError(f"PostgreSQL's server is not installed: Debian's package is {PACKAGE}")
        self.log_file = log_file
        self._programs = found
        (self._held,) = hold_ports(1)
        self._password = secrets.token_urlsafe(24)
        self._folder = Path()
        self._process: KeptProcess | None = None

    def __repr__(self) -> str:
        return f"<LocalPostgres {HOST}:{self._held.number}>"

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="cospark-postgres-"))
        try:
            self._make()
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def processes(self) -> Sequence[psutil.Process]:
        """Those of the server."""
        return self._process.tree() if self._process is not None else []

    @property
    def database(self) -> PostgresDatabase:
        """An empty one."""
        return PostgresDatabase(
            f"postgresql+psycopg2://{_USER}:{self._password}@{HOST}:{self._held.number}/{_DATABASE}"
        )

    def psql(self, statements: str) -> list[str]:
        """Run statements with PostgreSQL's own client, and return what the server has against them."""
        address = ("-h", HOST, "-p", str(self._held.number), "-U", _USER, "-d", _DATABASE)
        done = subprocess.run(
            [self._programs / "psql", *address, "-q", "-f", "-"],
            input=statements.encode(errors="surrogatepass"),
            capture_output=True,
            check=False,
            env={**os.environ, "PGPASSWORD": self._password, "PGCLIENTENCODING": "UTF8"},
        )
        return done.stderr.decode(errors="replace").splitlines()

    def stop(self) -> None:
        """End it, whoever is connected."""
        if self._process is not None and self._process.alive:
            os.kill(self._process.pid, signal.SIGINT)
            self._process.wait(_END_S)
        self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _make(self) -> None:
        password = self._folder / "password"
        password.touch(mode=0o600)
        password.write_text(self._password)
        if os.getuid() == 0:
            for path in (self._folder, password):
                shutil.chown(path, _SERVER_USER, _SERVER_USER)
        options = ("--username", _USER, "--auth", "scram-sha-256", "--pwfile", str(password))
        made = subprocess.run(
            self._command("initdb", "-D", str(self._data), *options, "-E", "UTF8", "--locale", "C", "--no-sync"),
            capture_output=True,
            check=False,
            cwd=self._folder,
        )
        password.unlink()
        if made.returncode:
            raise ProcessFailedError(f"PostgreSQL's files could not be made\n{made.stderr.decode(errors='replace')}")

    def _start(self) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._process = KeptProcess(
            "postgres",
            self._command("postgres", "-D", str(self._data), "-p", str(self._held.number), *_OPTIONS),
            env={"LC_ALL": "C"},
            folder=self._folder,
            log_file=self.log_file,
        )
        deadline = time.monotonic() + WAIT_S
        while not self._answers():
            if not self._process.alive or time.monotonic() > deadline:
                raise ProcessFailedError(f"PostgreSQL did not start\n{self._process.log_tail()}")
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((HOST, self._held.number), timeout=_POLL_S):
                pass
        except OSError:
            return False
        return "ready to accept connections" in self.log_file.read_text(errors="replace")

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self._programs / program), *arguments]
        if os.getuid() != 0:
            return command
        as_user = ("--reuid", _SERVER_USER, "--regid", _SERVER_USER, "--clear-groups")
        # With another user, a process forgets that it is to end with its parent.
        return ["setpriv", *as_user, "--pdeathsig", "KILL", "--", *command]
