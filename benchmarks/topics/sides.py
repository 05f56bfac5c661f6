"""Those who bring topics into tables: a group of two workers, attached or on a Spark Connect server; a plain script."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.records.status_topic.stream_lag import StreamLag
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from benchmarks.topics.parts import CATALOG, ROOT, settings
from benchmarks.topics.processes import kill_all, started
from benchmarks.topics.produced import FIELDS

sys.path.insert(0, str(ROOT / "tests"))

from fleet import Fleet

EVERY: Final = f"{os.environ.get('EVERY_S', '20')} seconds"
MEMORY: Final = os.environ.get("MEMORY", "2g")
"""Of each JVM of two workers; a single one has twice as much."""
REPLAN_S: Final = float(os.environ.get("REPLAN_S", "20"))
RETURN_S: Final = float(os.environ.get("RETURN_S", "5"))
"""A supervisor starts a killed worker or server again after so long."""
_WORKERS: Final = ("w1", "w2")
_START_S: Final = 300.0
_JOB: Final = "copy"
_END_S: Final = 300.0


class Side(ABC):
    """One way to do it.

    :param kills: what is killed, in this order
    :param new_topic: what it does when there is a new one
    :ivar ends: how often it has ended although nobody has killed it
    """

    kills: Sequence[str] = ()
    new_topic: str

    def __init__(self, name: str, bootstrap_servers: str, folder: Path) -> None:
        self.name = name
        self.ends = 0
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.checkpoints = self.folder / "checkpoints"
        self.checkpoints.mkdir()
        self.config: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "pattern": rf"{name}\.\d+",
            "table": f"{CATALOG}.{name}.{{topic}}",
            "fields": FIELDS,
            "every": EVERY,
        }

    def topic(self, number: int) -> str:
        return f"{self.name}.{number:03d}"

    def write_settings(self, memory: str) -> Mapping[str, str]:
        """Of its Spark, also for programs that look into its tables."""
        own = {**settings(self.folder.parent), "spark.driver.memory": memory}
        self.settings_file.write_text(json.dumps(own))
        return own

    @property
    def settings_file(self) -> Path:
        return self.folder / "settings.json"

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    def pids(self) -> list[int]:
        """Of its processes, without those that they have started."""

    async def kill(self, what: str) -> None:
        """SIGKILL, and start it again as a supervisor would."""
        raise NotImplementedError(what)

    async def has_new_topic(self) -> None:
        """Do what a new topic asks for."""
        return

    async def look_after(self) -> None:
        """Start again what has ended by itself, as a supervisor would."""
        return

    def told(self) -> Mapping[str, int]:
        """How many rows each stream is behind, as its status says; empty if there is no such thing."""
        return {}


class Group(Side):
    """Two workers with the ready-made job, whose streams are attached: each worker has a Spark."""

    kills: Sequence[str] = ("worker",)
    new_topic = f"planned again every {REPLAN_S:g} s"

    def __init__(self, name: str, bootstrap_servers: str, folder: Path, slots: int) -> None:
        super().__init__(name, bootstrap_servers, folder)
        self._slots = slots
        self._open = AsyncExitStack()
        self.conf = self.write_settings(MEMORY)
        self._servers = bootstrap_servers

    async def start(self) -> None:
        options: dict[str, object] = {
            "--slots": self._slots,
            "--allow": "airflow_provider.jobs",
            "--checkpoint-root": self.checkpoints,
            "--progress-interval": 5,
        }
        flat = [str(part) for option in options.items() for part in option] + self._spark()
        self._fleet = await self._open.enter_async_context(
            Fleet(self._servers, self.name, self.folder, *flat, modules=ROOT)
        )
        for worker in _WORKERS:
            self._fleet.start(worker)
        await self._fleet.submit(
            _JOB,
            tasks=self._slots,
            entry_point="airflow_provider.jobs.kafka_to_table:KafkaToTable",
            kind=TaskKind.STREAMING,
            config={**self.config, "format": "iceberg"},
            replan_interval_ms=round(REPLAN_S * 1000),
        )

    def _spark(self) -> list[str]:
        """Options of the workers."""
        return [part for name, value in self.conf.items() for part in ("--spark-conf", f"{name}={value}")]

    async def kill(self, what: str) -> None:
        assert what == "worker"
        await asyncio.to_thread(self._fleet.kill, _WORKERS[0])
        await asyncio.sleep(RETURN_S)
        again_ms = wall_ms()
        self._fleet.start(_WORKERS[0])

        def is_back(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            told = [each for each in status.workers.values() if each.worker == _WORKERS[0]]
            return any(each.at_ms >= again_ms and each.state.applied for each in told)

        await self._wait_for(is_back, "the killed worker is back")

    async def end(self) -> None:
        try:
            if self._fleet.runs(_WORKERS[1]):
                await self._fleet.topics.remove(_JOB)
                await self._wait_for(_nothing_runs, "all streams have stopped")
        finally:
            await self._open.aclose()

    async def _wait_for(self, holds: Callable[[JobsSnapshot, StatusSnapshot], bool], what: str) -> None:
        try:
            await self._fleet.topics.wait_for(holds, timeout_s=_END_S)
        except TimeoutError:
            print(f"{self.name}: NOT within {_END_S:.0f} s: {what}", flush=True)

    def pids(self) -> list[int]:
        return [self._fleet.pid(worker) for worker in _WORKERS if self._fleet.runs(worker)]

    def told(self) -> Mapping[str, int]:
        last = self._fleet.topics.status.tasks.values()
        running = [each for each in last if each.state is TaskState.RUNNING and not each.task.is_planner]
        lags = {str(each.task): StreamLag.of(each.progress).lag.units.get("offsets") for each in running}
        return {task: rows for task, rows in lags.items() if rows is not None}


class DetachedGroup(Group):
    """The same on a Spark Connect server, on which the streams go on without their workers."""

    kills = ("worker", "server")

    def __init__(self, name: str, bootstrap_servers: str, folder: Path, slots: int) -> None:
        super().__init__(name, bootstrap_servers, folder, slots)
        self.conf = self.write_settings(_twice(MEMORY))
        self._server = LocalConnectServer(conf=self.conf, start_timeout_s=_START_S)

    async def start(self) -> None:
        self._open.callback(self._server.close)
        await asyncio.to_thread(self._server.start)
        await super().start()

    def _spark(self) -> list[str]:
        return ["--spark-master", self._server.url]

    async def kill(self, what: str) -> None:
        if what == "worker":
            await super().kill(what)
            return
        await asyncio.to_thread(self._server.kill)
        await asyncio.sleep(RETURN_S)
        await asyncio.to_thread(self._server.start)

    def pids(self) -> list[int]:
        return [*super().pids(), *filter(None, [self._server.pid])]


class Script(Side):
    """A plain Spark script in one process. Nobody kills it."""

    new_topic = "the script is started again"

    def __init__(self, name: str, bootstrap_servers: str, folder: Path) -> None:
        super().__init__(name, bootstrap_servers, folder)
        self.write_settings(_twice(MEMORY))
        self._config_file = self.folder / "config.json"
        self._config_file.write_text(json.dumps({**self.config, "checkpoints": str(self.checkpoints)}))

    async def start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.topics.plain", str(self.settings_file), str(self._config_file)]
        self._process = started(command, self.folder / "script.log")
        self._is_wanted = True

    async def has_new_topic(self) -> None:
        """Start again, without the time that an orderly end would take."""
        await self.end()
        await self.start()

    async def look_after(self) -> None:
        if self._is_wanted and self._process.poll() is not None:
            self.ends += 1
            print(f"{self.name}: the script has ended by itself, and is started again", flush=True)
            await self.start()

    async def end(self) -> None:
        self._is_wanted = False
        await asyncio.to_thread(kill_all, self._process)

    def pids(self) -> list[int]:
        return [self._process.pid] if self._process.poll() is None else []


def _nothing_runs(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    return not any(last.state.runs for last in status.tasks.values())


def _twice(memory: str) -> str:
    return f"{2 * int(memory[:-1])}{memory[-1]}"
