"""A standalone Spark cluster on loopback for tests: the master and workers of the PySpark package, as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

DEADLINE_S = 60.0


class StandaloneCluster:
    """A master, which keeps its port when it is started again, and the workers that a test starts.

    :param folder: for logs and the workers' files
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self._page = _free_ports(2)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start_master(self) -> None:
        self._start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._page)),
        )
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, self.log("master")
                time.sleep(0.1)
            else:
                return

    def start_worker(self, name: str = "worker") -> None:
        (page,) = _free_ports(1)
        self._start(
            name,
            "org.apache.spark.deploy.worker.Worker",
            *("--host", "127.0.0.1", "--webui-port", str(page), "--cores", "2", "--memory", "1g"),
            *("--work-dir", str(self._folder / name), self.url),
        )

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-4_000:]

    def __enter__(self) -> StandaloneCluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in [*(name for name in self._processes if name != "master"), *self._processes]:
            if name in self._processes:
                self._end(self._processes.pop(name))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """A worker that is told to end takes its executors along."""
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_DAEMON_MEMORY": "256m",
                },
            )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
