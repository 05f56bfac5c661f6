"""Real distributed workers of Java Kafka Connect, their reports about themselves and their tasks, and their REST API.

One Java process holds all workers of a test, because starting a JVM is slow; each is started from a properties file by
the class behind ``connect-distributed.sh``. The connector ``IdleSource`` (``java/IdleSource.java``) and its tasks
report when they start and stop.
"""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from java_classes import running_java
from waiting import DEADLINE_S, eventually

from airflow_provider.values.model import TaskId, Tasks

_MAIN: Final = "cospark.peer.Workers"
_SHOWN: Final = 6_000


@dataclass(frozen=True)
class Said:
    """A report by a worker, or a connector or task in it: ``event`` at a time of the wall clock, in milliseconds."""

    event: str
    worker: str
    at_ms: int
    more: Mapping[str, Any]

    @property
    def task(self) -> TaskId:
        return TaskId(self.more["job"], self.more["index"])


class ConnectWorkers:
    """Java workers in one process. All their reports are in :attr:`said`, in order."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self.said: list[Said] = []
        self._asked: dict[str, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, worker: str, bootstrap_servers: str, group_id: str, **properties: object) -> None:
        """Start a worker; write dots in the names of properties as underscores."""
        path = self._folder / f"{worker.replace(chr(47), chr(45))}.properties"
        all_of_them = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            **{f"{kind}.storage.topic": f"{group_id}.connect-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.partitions": 1 for kind in ("offset", "status")},
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "listeners": "http://127.0.0.1:0",
            "plugin.path": self._folder,
            "plugin.discovery": "service_load",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in all_of_them.items()))
        self._tell({"op": "start", "worker": worker, "properties": str(path)})

    def stop(self, worker: str) -> None:
        """Have a worker stop in order: it leaves its group."""
        self._tell({"op": "stop", "worker": worker})

    async def started(self, *workers: str) -> None:
        await self.heard("worker started", *workers)

    async def stopped(self, *workers: str) -> None:
        await self.heard("worker stopped", *workers)

    async def heard(self, event: str, *workers: str) -> None:
        """Wait until this is the last report of each of these workers about itself."""

        def holds() -> bool:
            return all(self._last_word(worker) == event for worker in workers)

        await self.until(holds, f"{event}: {', '.join(workers)}")

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something.

        :raises AssertionError: if it does not come true in time, with the end of what Java has logged
        """

        def look() -> object:
            assert self._process.poll() is None, f"Java has ended:\n{self._end_of_log()}"
            failed = [said for said in self.said if said.event == "worker failed"]
            assert not failed, f"{failed}:\n{self._end_of_log()}"
            return holds()

        try:
            await eventually(look, what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story()}\n{self._end_of_log()}") from None

    def log(self) -> str:
        return (self._folder / "stderr").read_text(errors="replace")

    def _end_of_log(self) -> str:
        return self.log()[-_SHOWN:]

    def story(self) -> str:
        return "\n".join(f"{said.at_ms} {said.worker} {said.event} {dict(said.more)}" for said in self.said[-60:])

    # ---- what runs

    def copies(self, worker: str | None = None) -> Counter[TaskId]:
        """How many copies of each task and connector run, in one worker or in all."""
        counts: Counter[TaskId] = Counter()
        for said in list(self.said):
            if said.event in ("started", "stopped") and worker in (None, said.worker):
                counts[said.task] += 1 if said.event == "started" else -1
        return +counts

    def running(self, worker: str | None = None) -> Tasks:
        return frozenset(self.copies(worker))

    def stops(self, *, since: int = 0) -> Counter[TaskId]:
        """How often each task was stopped after the first ``since`` reports."""
        return Counter(said.task for said in self.said[since:] if said.event == "stopped")

    # ---- REST

    def url(self, worker: str) -> str:
        started = [said for said in self.said if said.worker == worker and said.event == "worker started"]
        return str(started[-1].more["url"]).rstrip("/")

    def rest(self, worker: str, path: str, body: object = None, *, method: str | None = None) -> Any:
        """The answer of a worker's REST API.

        :raises urllib.error.HTTPError: the worker refuses
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url(worker)}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def configure(self, worker: str, connector: str, **config: object) -> None:
        """Make or change a connector; by default one with idle tasks."""
        all_of_it = {"connector.class": "cospark.peer.IdleSource", **config}
        self.rest(
            worker,
            f"/connectors/{connector}/config",
            {name.replace("_", "."): str(value) for name, value in all_of_it.items()},
            method="PUT",
        )

    # ---- the process

    def _last_word(self, worker: str) -> str | None:
        """The worker's last report about itself."""
        since = self.said[self._asked.get(worker, 0) :]
        words = [said.event for said in since if said.worker == worker and said.event.startswith("worker ")]
        return words[-1] if words else None

    def _tell(self, question: dict[str, Any]) -> None:
        self._asked[question["worker"]] = len(self.said)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            data = json.loads(line)
            self.said.append(Said(data.pop("event"), data.pop("worker"), data.pop("at_ms"), data))


@contextmanager
def connect_workers(classes: Path, folder: Path, *options: str) -> Iterator[ConnectWorkers]:
    """A Java process for workers, as long as the context lasts; it ends when this process does, too.

    :param classes: the folder of the compiled classes
    :param folder: for properties files and what Java logs
    :param options: of the JVM
    :raises MissingPrerequisiteError: there is no Java
    """
    with running_java(_MAIN, classes, folder / "stderr", "-Xmx512m", *options) as process:
        yield ConnectWorkers(process, folder)
