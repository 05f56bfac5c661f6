"""A real standalone Spark cluster on this machine: a master and workers from the PySpark package, loopback only.

Its executors do not see the test's import path: they have no ``PYTHONPATH``, and a working directory of their own.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import psutil
from quick_spark import launcher_options, quick_jvm
from waiting import DEADLINE_S

from airflow_provider.servers.own_process import hold_ports
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.pyspark_internals import home_of_spark

_HOST = "127.0.0.1"
_POLL_S = 0.05
_FAST: Mapping[str, str] = {
    "spark.driver.host": _HOST,
    "spark.driver.bindAddress": _HOST,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
}


class StandaloneCluster:
    """A master, and the workers that a test adds. As a context manager it is started and finally killed.

    It never outlives this process.

    :param worker_timeout_s: the silence after which the master counts a worker as lost (``spark.worker.timeout``)
    :param recovery: where the master keeps its state for the next one (``spark.deploy.recoveryMode``); NONE: nowhere
    """

    def __init__(self, *, worker_timeout_s: int = 60, recovery: Literal["NONE", "FILESYSTEM"] = "NONE") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cospark-standalone-"))
        self._recovery = recovery
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master: subprocess.Popen[bytes] | None = None
        self._held = hold_ports(2)
        self._port, self._page = (held.number for held in self._held)
        self._worker_timeout_s = worker_timeout_s

    @property
    def url(self) -> str:
        """The value of ``spark.master``."""
        return f"spark://{_HOST}:{self._port}"

    def settings(self, name: str = "cospark", cores: int = 2, **conf: str) -> LocalSparkSettings:
        """Settings of a runner with so many ``cores``; ``conf`` are further settings, with ``_`` for a dot."""
        return LocalSparkSettings(
            master=self.url, app_name=name, conf={**_FAST, "spark.cores.max": str(cores), **_settings(conf)}
        )

    def options(self, **conf: str) -> tuple[str, ...]:
        """The same as options of ``cospark worker``; the caller adds the number of cores."""
        given = (f"{name}={value}" for name, value in {**_FAST, **_settings(conf)}.items())
        return ("--spark-master", self.url, *(part for each in given for part in ("--spark-conf", each)))

    def __enter__(self) -> StandaloneCluster:
        atexit.register(self.stop)
        try:
            self.start_master()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all processes and remove the files; may be called again."""
        for worker in [*self.workers]:
            self.kill_worker(worker)
        self.kill_master()
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.stop)

    def start_master(self) -> None:
        """Start a master at the same address; it recovers only what ``recovery`` keeps."""
        options = ("--host", _HOST, "--port", str(self._port), "--webui-port", str(self._page))
        self.master = self._start("master", "org.apache.spark.deploy.master.Master", *options)
        self.wait(lambda state: state["status"] == "ALIVE", "the master is alive")

    def kill_master(self) -> None:
        if self.master is not None:
            _kill(self.master)
            self.master = None

    def add_worker(self, *, cores: int = 2, memory: str = "2g") -> subprocess.Popen[bytes]:
        """Start a worker; returns when it has registered with the master."""
        known = self.alive_workers()
        name = f"worker-{len(list(self.folder.glob('worker-*.log')))}"
        options = ("--host", _HOST, "--webui-port", "0", "--cores", str(cores), "--memory", memory)
        files = ("--work-dir", str(self.folder / name))
        worker = self._start(name, "org.apache.spark.deploy.worker.Worker", *options, *files, self.url)
        self.workers.append(worker)
        self.wait(lambda state: state["aliveworkers"] > known, f"{name} has registered")
        return worker

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker and its executors, like the loss of its machine."""
        executors = self.executors(worker)
        _kill(worker)
        for executor in executors:
            with contextlib.suppress(psutil.NoSuchProcess):
                executor.kill()
        self.workers.remove(worker)

    def executors(self, worker: subprocess.Popen[bytes] | None = None) -> list[psutil.Process]:
        """The JVMs of the executors of one worker, or of all."""
        found = []
        for each in [worker] if worker is not None else self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += [
                    child for child in psutil.Process(each.pid).children(recursive=True) if child.name() == "java"
                ]
        return found

    def alive_workers(self) -> int:
        state = self.state()
        return 0 if state is None else int(state["aliveworkers"])

    def applications(self) -> list[str]:
        """The names of the applications that the master counts as active."""
        state = self.state()
        return [] if state is None else [app["name"] for app in state["activeapps"]]

    def state(self) -> dict[str, Any] | None:
        """The master's state from its JSON page; None while the master is starting."""
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._page}/json/", timeout=5) as answer:
                return dict(json.load(answer))
        except (OSError, json.JSONDecodeError):
            return None

    def wait(self, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Wait until ``holds`` is true of the master's state.

        :raises AssertionError: if it is not in time; the message has the ends of all logs
        """
        deadline = time.monotonic() + DEADLINE_S
        while (state := self.state()) is None or not holds(state):
            ended = [each for each in [self.master, *self.workers] if each is not None and each.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"not so: {what}; the cluster says {state}\n{self._logs()}")
            time.sleep(_POLL_S)

    def _start(self, name: str, java_class: str, *options: str) -> subprocess.Popen[bytes]:
        home = home_of_spark()
        env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK", "PYSPARK"))}
        options_of_jvm = (
            *quick_jvm(),
            f"-Dspark.worker.timeout={self._worker_timeout_s}",
            f"-Dspark.deploy.recoveryMode={self._recovery}",
            f"-Dspark.deploy.recoveryDirectory={self.folder / 'recovery'}",
        )
        env |= {"SPARK_HOME": home, "SPARK_LOCAL_IP": _HOST, "SPARK_DAEMON_MEMORY": "192m"}
        env |= {"SPARK_DAEMON_JAVA_OPTS": " ".join(options_of_jvm), "SPARK_LAUNCHER_OPTS": launcher_options()}
        env |= {"SPARK_LOCAL_DIRS": str(self.folder / "local")}
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [f"{home}/bin/spark-class", java_class, *options],
                env=env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )

    def _logs(self) -> str:
        return "\n".join(
            f"{file.name}:\n{file.read_text(errors='replace')[-3_000:]}" for file in sorted(self.folder.glob("*.log"))
        )


def _settings(conf: Mapping[str, str]) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in conf.items()}
    return {"spark.executor.extraJavaOptions": " ".join(quick_jvm()), **named}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
