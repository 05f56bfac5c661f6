"""A real Spark Connect server on this machine, for trials and tests: loopback only, gone when its owner is.

It is Spark's own, out of the PySpark package.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from airflow_provider.broker.jars import pyspark_home
from airflow_provider.broker.java import find_java
from airflow_provider.broker.own_process import HOST, free_ports, require_free, tail, watch_over

_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of one
_POLL_S: Final = 0.05


class ServerStartError(RuntimeError):
    """The server did not come up; the message carries the end of its log."""


class LocalConnectServer:
    """A Spark Connect server in a process of its own, with a Spark of this machine's.

    As a context manager it is started and, at the end, killed. Killed and started again it has the same address, and
    knows nothing of the sessions that it had. It does not outlive this process, however this process ends.

    :param port: where clients connect; a free one by default
    :param master: of its Spark
    :param token: which clients must name; empty: none
    :param conf: further settings of Spark
    :param start_timeout_s: how long it may take to start
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        master: str = "local[2]",
        token: str = "",
        conf: Mapping[str, str] | None = None,
        start_timeout_s: float = 90.0,
    ) -> None:
        self._port = port or free_ports(1)[0]
        self._master = master
        self._token = token
        self._conf = conf or {}
        self._start_timeout_s = start_timeout_s
        self._owner = os.getpid()
        self._folder = Path(tempfile.mkdtemp(prefix="cospark-connect-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"sc://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The server's process, or None while it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def log_tail(self) -> str:
        """The end of its log, which goes with the server."""
        return tail(self._log.read_text(errors="replace"))

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def start(self) -> None:
        """Start the server and wait until it serves clients.

        :raises MissingPrerequisiteError: there is no suitable Java or PySpark
        :raises PortError: somebody else listens on its port
        :raises ServerStartError: it ended or took too long
        """
        if self.pid is not None:
            return
        self.kill()  # if it ended by itself, its watcher still runs
        home, java = pyspark_home(), find_java()
        require_free(self._port)
        atexit.register(self.close)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                self._command(home),
                cwd=self._folder,
                env=self._environment(home, java),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in our terminal is ours to handle
            )
        self._watchdog = watch_over(self._process.pid)
        try:
            self._wait_until_started(self._process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server for good. There is nothing that it would have to put in order."""
        if os.getpid() != self._owner:
            return  # a forked child that ends: the server is its parent's
        atexit.unregister(self.close)
        try:
            self.kill()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalConnectServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _command(self, home: Path) -> list[str]:
        conf = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            # Java's usual 1 MB of stack is too little for how Spark finds out whether a foreachBatch was interrupted.
            "spark.driver.defaultJavaOptions": f"-Xss8m -Dderby.system.home={self._folder}",
            **self._conf,
        }
        settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        submit = str(home / "bin" / "spark-submit")
        return [submit, "--master", self._master, "--class", _CLASS, *settings, "spark-internal"]

    def _environment(self, home: Path, java: Path) -> dict[str, str]:
        """Its Python is this one, and imports what this process can."""
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java.resolve().parent.parent),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        }
        for name in (_TOKEN, "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_DRIVER_PYTHON"):
            environment.pop(name, None)
        return environment | ({_TOKEN: self._token} if self._token else {})

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not self._accepts():
            status = process.poll()
            if status is not None:
                raise ServerStartError(f"the server ended with status {status} instead of starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ServerStartError(
                    f"the server did not start within {self._start_timeout_s:g} s:\n{self.log_tail()}"
                )
            time.sleep(_POLL_S)

    def _accepts(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1.0)
            return client.connect_ex((HOST, self._port)) == 0
