"""A real Spark Connect server on this machine, for trials and tests. It is Spark's own, from the PySpark package. It
listens on loopback only, and ends with its owner.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider.servers.jars import pyspark_home
from airflow_provider.servers.java import find_java
from airflow_provider.servers.own_process import HOST, hold_ports, require_free
from airflow_provider.servers.own_server import START_S, NotStartedError, OwnServer
from airflow_provider.spark.properties import submit_options

_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
BINDING_ADDRESS: Final = "spark.connect.grpc.binding.address"
BINDING_PORT: Final = "spark.connect.grpc.binding.port"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of one


class ServerStartError(NotStartedError):
    """The server did not start; the message has the end of its log."""


class LocalConnectServer(OwnServer):
    """A Spark Connect server in a process of its own. Its Spark runs on this machine or on a cluster.

    If it is killed and started again, it has the same address, but does not know its earlier sessions. There is nothing
    to clean up, so it is stopped with SIGKILL.

    :param port: where clients connect; a free one by default
    :param master: the master URL of its Spark
    :param token: the token that clients must send; empty: none
    :param conf: more settings of its Spark; they can't move it to another address
    :param start_timeout_s: how long the start may take, in seconds
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        master: str = "local[2]",
        token: str = "",
        conf: Mapping[str, str] | None = None,
        start_timeout_s: float = START_S,
    ) -> None:
        folder = Path(tempfile.mkdtemp(prefix="cospark-connect-"))
        super().__init__("the server", folder, "server.log", keeps_folder=False, not_started=ServerStartError)
        self._held = [] if port else hold_ports(1)
        self._port = port or self._held[0].number
        self._master = master
        self._token = token
        self._conf = conf or {}
        self._start_timeout_s = start_timeout_s

    @property
    def url(self) -> str:
        return f"sc://{HOST}:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it serves clients.

        :raises MissingPrerequisiteError: if there is no suitable Java or PySpark
        :raises PortError: if something else listens on its port
        :raises ServerStartError: if it has ended or took too long
        """
        if self.pid is not None:
            return
        self.kill()  # if it ended by itself, its watcher still runs
        home, java = pyspark_home(), find_java()
        require_free(self._port)
        self._close_at_exit()
        self._run(
            self._command(home),
            lambda _log: self._accepts(),
            sign=f"it to listen on {HOST}:{self._port}",
            limit_s=self._start_timeout_s,
            cwd=self._folder,
            environment=self._environment(home, java),
        )

    def _command(self, home: Path) -> list[str]:
        conf = {
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            # Spark finds out with a deeply recursive regular expression whether a stop has interrupted a foreachBatch:
            # Java's default stack of 1 MB is too small for that.
            "spark.driver.defaultJavaOptions": f"-Xss8m -Dderby.system.home={self._folder}",
            **self._conf,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            BINDING_ADDRESS: HOST,
            BINDING_PORT: str(self._port),
        }
        submit, settings = str(home / "bin" / "spark-submit"), submit_options(conf, self._folder)
        return [submit, "--master", self._master, "--class", _CLASS, *settings, "spark-internal"]

    def _environment(self, home: Path, java: Path) -> dict[str, str]:
        """Its Python is this process's, with the same import path."""
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

    def _accepts(self) -> bool:
        with socket.socket() as client:
            client.settimeout(1.0)
            return client.connect_ex((HOST, self._port)) == 0
