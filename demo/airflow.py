"""A real Airflow on this machine: each component is a process of its own, in its own folder, on loopback only.

For the demo and for system tests. Tasks run in processes (LocalExecutor), the metadata is in SQLite unless another
database is given, and the only port is the API server's: logs are read as files, so neither the scheduler nor the
triggerer serves them.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from typing_extensions import Self

from airflow_provider.servers.own_process import hold_ports
from demo.airflow_api import WAIT_S, AirflowApi
from demo.databases import Database, SqliteDatabase
from demo.pausing import paused
from demo.processes import KeptProcess, ProcessFailedError

_HOST: Final = "127.0.0.1"
_USER: Final = "admin"
_POLL_S: Final = 0.2
_LOCK_TIMEOUT_S: Final = 60
"""How long, in seconds, a component waits for another one that writes: a scheduler that gives up ends."""
_API_LOCK_TIMEOUT_S: Final = 5
"""Shorter, because the API server's connections may wait for each other without end, and all others for them."""

_SETTINGS: Final[Mapping[str, str]] = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_USER}:admin",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__API__HOST": _HOST,
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TRIGGER_TIMEOUT_CHECK_INTERVAL": "2",
    # A task whose supervisor has ended fails after so many seconds. SQLite may let heartbeats wait for half a minute.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "120",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    # A task that a user has marked as failed learns it at its next heartbeat.
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
    # Orphaned processes of a killed task must not keep it "running".
    "AIRFLOW__WORKERS__SOCKET_CLEANUP_TIMEOUT": "2",
    # Another triggerer takes over the triggers of one that was silent for so many seconds.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
    "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
    "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
    "AIRFLOW__DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",
}

_IMPORT_BEFORE_FORKS: Final = """\
import importlib
import sys

if "scheduler" in sys.argv:
    for name in {names}:
        importlib.import_module(name)
"""


class LocalAirflow:
    """An Airflow that runs during a ``with`` block, on free ports, and leaves nothing behind.

    All its processes end with this one, however this ends. They use the interpreter that runs this code.

    :param home: an empty folder for its configuration, database and logs (its ``AIRFLOW_HOME``), in which its
        processes, including tasks, run
    :param dag_folders: each is loaded as a DAG bundle of its own, named after the folder
    :param connections: connection id -> URI or JSON, given to all processes as ``AIRFLOW_CONN_<ID>``
    :param database: for its metadata; by default a SQLite file in ``home``
    :param env: more environment variables for all processes; ``AIRFLOW__SECTION__KEY`` overrides what is set here
    :param triggerers: how many triggerers to start
    :param parallelism: how many tasks may run at the same time
    :param imports: modules that the scheduler imports before it forks the processes of tasks, which then need not
    :param timeout_s: in how many seconds all components must be healthy, and how long :attr:`api` waits for anything
    """

    def __init__(
        self,
        home: Path,
        *,
        dag_folders: Sequence[Path],
        connections: Mapping[str, str] | None = None,
        database: Database | None = None,
        env: Mapping[str, str] | None = None,
        triggerers: int = 1,
        parallelism: int = 12,
        imports: Sequence[str] = (),
        timeout_s: float = WAIT_S,
    ) -> None:
        self.home = home.absolute()
        (self._held,) = hold_ports(1)
        self.port = self._held.number
        self.url = f"http://{_HOST}:{self.port}"
        self.username = _USER
        self.password = secrets.token_urlsafe(12)
        self.api = AirflowApi(
            self.url, username=self.username, password=self.password, check=self.check, timeout_s=timeout_s
        )
        self.database = database or SqliteDatabase(self.home / "airflow.db")
        self._triggerers = triggerers
        self._imports = imports
        self._timeout_s = timeout_s
        self._processes: dict[str, KeptProcess] = {}
        self._last_triggerer = 0
        self._env = self._environment(dag_folders, connections or {}, parallelism) | dict(env or {})

    def __repr__(self) -> str:
        return f"<LocalAirflow {self.url} in {self.home}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all components, and return when they are healthy.

        :raises ProcessFailedError: if one has ended, or is not healthy in time; nothing keeps running then
        """
        expected = {"metadatabase", "scheduler", "dag_processor"} | ({"triggerer"} if self._triggerers else set())
        with self._starting(expected):
            self.start_scheduler()
            self._run("dag-processor", "dag-processor")
            for _ in range(self._triggerers):
                self.start_triggerer()

    def start_api_server_alone(self) -> None:
        """Start only the API server, for use without tasks, and return when it answers.

        :raises ProcessFailedError: if it has ended, or does not answer in time
        """
        with self._starting({"metadatabase"}):
            pass

    @contextmanager
    def _starting(self, expected: Set[str]) -> Iterator[None]:
        """Start the database and the API server. Components that are started in the block must be healthy at its end.

        :param expected: the components that Airflow must then report as healthy
        """
        deadline = time.monotonic() + self._timeout_s
        try:
            self._write_passwords()
            self._write_plugin()
            self.database.make(self._migrate)
            address = ("--host", _HOST, "--port", str(self.port))
            self._run("api-server", "api-server", *address, lock_timeout_s=_API_LOCK_TIMEOUT_S)
            yield
            self._wait_until_healthy(expected, deadline)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all components immediately; running tasks and triggers are killed."""
        self.api.close()
        for process in reversed(list(self._processes.values())):
            process.kill()
        self._processes.clear()

    # Single components

    @property
    def processes(self) -> Mapping[str, KeptProcess]:
        """The running components by name: ``api-server``, ``scheduler``, ``dag-processor``, ``triggerer-1``, ..."""
        return {name: process for name, process in self._processes.items() if process.alive}

    def check(self) -> None:
        """Check that all components run that were started, and not ended by a method of this class.

        :raises ProcessFailedError: if one has ended by itself; has the end of its log
        """
        for process in list(self._processes.values()):
            if not process.alive:
                tail = process.log_tail(200)
                reason = next((line for line in reversed(tail.splitlines()) if "Error: " in line), "its log says")
                raise ProcessFailedError(f"{process.name} has ended: {reason}\n{tail}")

    def start_triggerer(self) -> str:
        """Start another triggerer, and return its name (such as ``triggerer-2``) without waiting for it."""
        self._last_triggerer += 1
        name = f"triggerer-{self._last_triggerer}"
        self._run(name, "triggerer", "--skip-serve-logs")
        return name

    def kill_triggerer(self, name: str | None = None) -> str:
        """Send SIGKILL to a triggerer and the process that runs its triggers, as if its machine was lost.

        :param name: by default the one that was started first
        :return: its name
        """
        name = name or self._first("triggerer-")
        self._processes.pop(name).kill()
        return name

    def stop_triggerer(self, name: str | None = None, *, grace_s: float = 20.0) -> str:
        """Send SIGTERM to a triggerer, which ends its triggers in an orderly way (``cleanup``), as in an upgrade."""
        name = name or self._first("triggerer-")
        self._processes.pop(name).stop(grace_s=grace_s)
        return name

    def start_scheduler(self) -> None:
        self._run("scheduler", "scheduler", "--skip-serve-logs")

    def kill_scheduler(self) -> None:
        """Send SIGKILL to the scheduler and all running tasks, which are its children with LocalExecutor."""
        self._processes.pop("scheduler").kill()

    def stop_scheduler(self, *, grace_s: float = 20.0) -> None:
        """Send SIGTERM to the scheduler, as in an upgrade; it waits for running tasks as long as ``grace_s``."""
        self._processes.pop("scheduler").stop(grace_s=grace_s)

    def paused(self, name: str) -> AbstractContextManager[None]:
        """Stop a component and its descendants (SIGSTOP) during a ``with`` block (:func:`.pausing.paused`)."""
        return paused(self._processes[name], self.database.can_be_written, timeout_s=self._timeout_s)

    def _first(self, prefix: str) -> str:
        names = [name for name in self.processes if name.startswith(prefix)]
        if not names:
            raise ProcessFailedError(f"no {prefix.rstrip('-')} runs")
        return names[0]

    def _run(self, name: str, *arguments: str, lock_timeout_s: int = _LOCK_TIMEOUT_S) -> KeptProcess:
        database = self.database.url(lock_timeout_s=lock_timeout_s)
        process = KeptProcess(
            name,
            [sys.executable, "-m", "airflow", *arguments],
            env={"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database} | self._env,
            folder=self.home,
            log_file=self.home / "logs" / f"{name}.log",
        )
        self._processes[name] = process
        return process

    # Start

    def _write_plugin(self) -> None:
        """Airflow imports plugins in all its components, and in the scheduler before it forks."""
        folder = self.home / "plugins"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "imported_before_forks.py").write_text(_IMPORT_BEFORE_FORKS.format(names=list(self._imports)))

    def _write_passwords(self) -> None:
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({self.username: self.password}))

    def _migrate(self) -> None:
        migration = self._run("db-migrate", "db", "migrate")
        if migration.wait(self._timeout_s):
            raise ProcessFailedError(f"the metadata database could not be made\n{migration.log_tail()}")
        del self._processes["db-migrate"]

    def _wait_until_healthy(self, expected: Set[str], deadline: float) -> None:
        warm = "scheduler" not in expected  # only tasks would have to wait
        while True:
            self.check()
            health = self.api.health()
            if health and not warm:
                self.api.warm_up()
                warm = True
            waiting = sorted(part for part in expected if health.get(part) != "healthy")
            if not waiting:
                return
            if time.monotonic() > deadline:
                tails = "\n".join(process.log_tail(10) for process in self._processes.values())
                raise ProcessFailedError(f"not healthy after {self._timeout_s:g} s: {', '.join(waiting)}\n{tails}")
            time.sleep(_POLL_S)

    def _environment(
        self, dag_folders: Sequence[Path], connections: Mapping[str, str], parallelism: int
    ) -> dict[str, str]:
        outer = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
        return {
            **outer,
            **_SETTINGS,
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
            "AIRFLOW__CORE__PARALLELISM": str(parallelism),
            "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(parallelism),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__PORT": str(self.port),
            # Otherwise a process that starts while another one writes airflow.cfg has none, and reads no connection.
            "AIRFLOW__CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(_bundles(dag_folders)),
            **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in connections.items()},
        }


def _bundles(folders: Sequence[Path]) -> list[dict[str, object]]:
    names = [folder.name for folder in folders]
    return [
        {
            "name": name if names.count(name) == 1 else f"{name}-{number}",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(folder.absolute()), "refresh_interval": 3},
        }
        for number, (name, folder) in enumerate(zip(names, folders, strict=True), start=1)
    ]
