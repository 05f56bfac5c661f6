"""A real YARN on this machine: a resource manager and a node manager of Hadoop, loopback only.

Nobody installs Hadoop for this: its jars are those of its distribution. Its file system is that of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from xml.sax.saxutils import escape

import psutil
from waiting import DEADLINE_S, wait_until

from airflow_provider.servers.jars import default_cache, fetch_jars
from airflow_provider.servers.java import find_java
from airflow_provider.servers.own_process import HOST, hold_ports
from airflow_provider.servers.own_server import NotStartedError, OwnServer
from airflow_provider.spark.local.pyspark_internals import home_of_spark

_HADOOP: Final = tuple(
    f"org.apache.hadoop:hadoop-{name}:3.4.2"
    for name in ("common", *(f"yarn-server-{each}" for each in ("resourcemanager", "nodemanager", "timelineservice")))
)
_KNOWN: Final = Path(__file__).with_name("yarn_jars.sha256")
_SERVER: Final = "org.apache.hadoop.yarn.server"
_QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_JVM: Final = (
    *("-Xmx400m", *_QUICK.split()),
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")),
)
_LOG4J: Final = """\
log4j.rootLogger=INFO,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d %p %c: %m%n
"""
_PORTS: Final = (
    *(f"yarn.resourcemanager.{name}address" for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")),
    *(f"yarn.nodemanager.{name}address" for name in ("", "localizer.", "webapp.")),
)
_OF_CONTAINERS: Final = ("JAVA_HOME", "PATH", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
"""The variables that they inherit from the node manager."""


def hadoop_jars() -> tuple[Path, ...]:
    return fetch_jars(*_HADOOP, cache=default_cache(), known=_KNOWN)


class RealYarn:
    """As a context manager it is started and finally killed. It does not outlive this process.

    :ivar conf: the folder of its configuration
    :ivar properties: a file of Spark's properties for small applications there
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cospark-yarn-"))
        self.conf, self.properties = self.folder / "conf", self.folder / "spark.properties"
        self._held = hold_ports(len(_PORTS))
        self._addresses = {name: f"{HOST}:{port.number}" for name, port in zip(_PORTS, self._held, strict=True)}
        self.address = f"http://{self._addresses['yarn.resourcemanager.webapp.address']}"
        self.manager = _Daemon(self.folder, "resourcemanager.ResourceManager", "Transitioned to active state")
        self.node = _Daemon(self.folder, "nodemanager.NodeManager", "Registered with ResourceManager as")

    def __enter__(self) -> RealYarn:
        try:
            self._write_files()
            self.manager.start()
            self.start_node()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for daemon in (self.node, self.manager):
            daemon.close()
        for process in self.containers():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_node(self) -> None:
        self.node.start()
        wait_until(self._runs_nodes, "the resource manager has a node")

    def _runs_nodes(self) -> bool:
        with contextlib.suppress(OSError):
            return any(node["state"] == "RUNNING" for node in self.ask("nodes")["nodes"].get("node", ()))
        return False

    def applications(self) -> list[dict[str, Any]]:
        """All that it knows, as its REST interface describes them."""
        return [*self.ask("apps")["apps"].get("app", ())]

    def ask(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.address}/ws/v1/cluster/{path}", timeout=DEADLINE_S) as answer:
            return dict(json.load(answer))

    def containers(self) -> list[psutil.Process]:
        """The processes of all applications: drivers, executors and their Pythons."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder / "local"):
                    found.append(process)
        return found

    def _write_files(self) -> None:
        self.conf.mkdir()
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": f"{self.folder}/tmp"}
        (self.conf / "core-site.xml").write_text(_xml(core))
        (self.conf / "yarn-site.xml").write_text(
            _xml({**self._addresses, **_of_manager(self.folder), **_of_node(self.folder)})
        )
        (self.conf / "log4j.properties").write_text(_LOG4J)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in self.settings().items()))

    def settings(self) -> dict[str, str]:
        """Of Spark, for a small application there; its jars need not be copied."""
        return {
            "spark.yarn.jars": f"local:{home_of_spark()}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.folder}/staging",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.executor.instances": "1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _QUICK,
            "spark.sql.shuffle.partitions": "1",
        }


class _Daemon(OwnServer):
    """One of Hadoop's programs.

    :param sign: what its log says when it has started
    """

    def __init__(self, folder: Path, name: str, sign: str) -> None:
        super().__init__(name, folder, f"{name}.log", keeps_folder=True, not_started=NotStartedError)
        self._sign = sign

    def start(self) -> None:
        java = find_java()
        class_path = os.pathsep.join(map(str, (self._folder / "conf", *hadoop_jars())))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "HADOOP"))}
        self._close_at_exit()
        self._run(
            [str(java), *_JVM, f"-Djava.io.tmpdir={self._folder}", "-cp", class_path, f"{_SERVER}.{self.name}"],
            lambda log: self._sign in log,
            sign=repr(self._sign),
            limit_s=DEADLINE_S,
            cwd=self._folder,
            environment={
                **kept,
                "JAVA_HOME": str(java.resolve().parent.parent),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": HOST,
            },
        )


def _xml(settings: Mapping[str, str]) -> str:
    lines = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{lines}</configuration>\n"


def _of_manager(folder: Path) -> dict[str, str]:
    """A resource manager that remembers its applications if it is started again."""
    prefix = "yarn.resourcemanager"
    return {
        f"{prefix}.hostname": HOST,
        f"{prefix}.bind-host": HOST,
        f"{prefix}.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
        f"{prefix}.nodemanagers.heartbeat-interval-ms": "250",
        f"{prefix}.recovery.enabled": "true",
        f"{prefix}.store.class": f"{_SERVER}.resourcemanager.recovery.FileSystemRMStateStore",
        f"{prefix}.fs.state-store.uri": f"file://{folder}/state",
        "yarn.scheduler.minimum-allocation-mb": "128",
    }


def _of_node(folder: Path) -> dict[str, str]:
    """A node manager that finds its containers again if it is started again."""
    prefix = "yarn.nodemanager"
    return {
        f"{prefix}.hostname": HOST,
        f"{prefix}.bind-host": HOST,
        f"{prefix}.recovery.enabled": "true",
        f"{prefix}.recovery.supervised": "true",
        f"{prefix}.recovery.dir": f"{folder}/recovery",
        f"{prefix}.resource.memory-mb": "6000",
        f"{prefix}.resource.cpu-vcores": "6",
        f"{prefix}.local-dirs": f"{folder}/local",
        f"{prefix}.log-dirs": f"{folder}/logs",
        f"{prefix}.env-whitelist": ",".join(_OF_CONTAINERS),
        f"{prefix}.vmem-check-enabled": "false",
        f"{prefix}.disk-health-checker.enable": "false",
    }
