"""Hundreds of deferred workers in one real triggerer.

They join, stay for a minute, are taken over by a new triggerer after the first was killed, get a job in each group, and
are ended by a user. Everything is a real Airflow's: scheduler, triggerer, API server, SQLite. Only their first deferral
needs no process (:mod:`benchmarks.held`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_provider.group.live.shared import shared_topics, shared_transport
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition, TaskState
from airflow_provider.values.model import MemberId, WorkerId
from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApiError

CONNECTION: Final = "kafka_default"
GROUPS: Final = 10
WORKERS: Final = 50
STEADY_S: Final = 60.0
_DEADLINE_S: Final = 150.0
_LOOK_S: Final = 0.1
_HERE: Final = Path(__file__).parent
_BLOCKED: Final = re.compile(r"async thread was blocked for ([0-9.]+) seconds")


@dataclass(slots=True)
class Stretch:
    """The cost of a triggerer's two processes over some time: its supervisor, and the runner with the triggers."""

    processes: list[psutil.Process]
    log: Path
    began: float = field(default_factory=time.monotonic)
    cpu: list[float] = field(init=False)
    log_from: int = field(init=False)

    def __post_init__(self) -> None:
        self.cpu = [_cpu(process) for process in self.processes]
        self.log_from = self.log.stat().st_size

    def figures(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.began
        shares = [(_cpu(process) - cpu) / seconds for process, cpu in zip(self.processes, self.cpu, strict=True)]
        blocked = [float(each) for each in _BLOCKED.findall(self.log.read_text()[self.log_from :])]
        return {
            "seconds": round(seconds, 1),
            "supervisor_cpu": round(shares[0], 3),
            "runner_cpu": round(shares[1], 3),
            "supervisor_rss_mb": _rss_mb(self.processes[0]),
            "runner_rss_mb": _rss_mb(self.processes[1]),
            "times_blocked": len(blocked),
            "blocked_longest_s": max(blocked, default=0.0),
        }


class Bench:
    """The Airflow under test, and the groups, according to their topics."""

    def __init__(self, airflow: LocalAirflow, settings: KafkaSettings) -> None:
        self.airflow = airflow
        self.settings = settings
        self.groups: dict[str, GroupTopics] = {}
        self.runs: dict[str, str] = {}

    def stretch(self) -> Stretch:
        (name,) = (name for name in self.airflow.processes if name.startswith("triggerer"))
        kept = self.airflow.processes[name]
        supervisor = psutil.Process(kept.pid)
        (runner,) = supervisor.children()
        return Stretch([supervisor, runner], kept.log_file)

    async def measure(self) -> dict[str, Any]:
        names = [f"held-{number}" for number in range(GROUPS)]
        for name in names:
            await asyncio.to_thread(self.airflow.api.wait_for_dag, name)
        async with AsyncExitStack() as stack:
            figures: dict[str, Any] = {"workers": GROUPS * WORKERS, "groups": GROUPS}
            figures["joining"] = await self._join(names, stack)
            figures["steady"] = await self._stay()
            figures["taken_over"] = await self._take_over()
            figures["job"] = await self._work()
            figures["ended"] = await self._end()
        return figures

    async def _join(self, names: list[str], stack: AsyncExitStack) -> dict[str, Any]:
        stretch = self.stretch()
        for name in names:
            self.runs[name] = await asyncio.to_thread(self.airflow.api.trigger, name)
        for name in names:
            self.groups[name] = await stack.enter_async_context(shared_topics(self.settings, name, WORKER))
        await self._until(self._all_members, "all are members")
        return {**stretch.figures(), "epochs": self._epochs()}

    async def _stay(self) -> dict[str, Any]:
        stretch, before = self.stretch(), self._members()
        healthy = True
        while time.monotonic() - stretch.began < STEADY_S:
            await asyncio.sleep(2)
            health = await asyncio.to_thread(self.airflow.api.health)
            healthy = healthy and health.get("triggerer") == "healthy"
        lost = sum(len(set(before[name].items()) - set(now.items())) for name, now in self._members().items())
        return {**stretch.figures(), "sessions_lost": lost, "healthy": healthy, "epochs": self._epochs()}

    async def _take_over(self) -> dict[str, Any]:
        before, members = self._epochs(), await self._described()
        began = time.monotonic()
        self.airflow.kill_triggerer()
        self.airflow.start_triggerer()
        while await self._described() & members or len(await self._described()) < GROUPS * WORKERS:
            self._check_time(began, "all are new members under their old names")
            await asyncio.sleep(1)
        return {"seconds": round(time.monotonic() - began, 1), "epochs": self._epochs(), "epochs_before": before}

    async def _work(self) -> dict[str, Any]:
        stretch = self.stretch()
        began = time.monotonic()
        for topics in self.groups.values():
            await topics.submit(JobDefinition(name="nap", entry_point="jobs:Nap", submitted_at_ms=wall_ms()))
        await self._until(
            lambda: all(
                topics.status.group and any(topics.status.group.assignment.values()) for topics in self.groups.values()
            ),
            "all leaders have assigned",
        )
        assigned_s = time.monotonic() - began
        await self._until(
            lambda: all(
                any(
                    each.state is TaskState.RUNNING and not task.is_planner
                    for task, each in topics.status.tasks.items()
                )
                for topics in self.groups.values()
            ),
            "all jobs run",
        )
        return {
            **stretch.figures(),
            "assigned_s": round(assigned_s, 2),
            "running_s": round(time.monotonic() - began, 1),
        }

    async def _end(self) -> dict[str, Any]:
        stretch = self.stretch()
        for name, run in self.runs.items():
            path = f"/dags/{name}/dagRuns/{run}"
            await self._insist("PATCH", path, json={"state": "failed"})
        marked_s = time.monotonic() - stretch.began
        while await self._described():
            self._check_time(stretch.began, "all have left")
            await asyncio.sleep(0.5)
        return {**stretch.figures(), "marked_s": round(marked_s, 1)}

    async def _insist(self, method: str, path: str, **options: Any) -> None:
        """Repeat a request that fails because SQLite made the API server wait too long for the triggerer's writes."""
        began = time.monotonic()
        while True:
            try:
                await asyncio.to_thread(self.airflow.api.request, method, path, **options)
                return
            except AirflowApiError:
                self._check_time(began, f"{method} {path} succeeds")

    # ---- the groups

    def _all_members(self) -> bool:
        return all(
            topics.status.group is not None and len(topics.status.group.members) == WORKERS
            for topics in self.groups.values()
        )

    def _members(self) -> dict[str, Mapping[WorkerId, MemberId]]:
        return {name: topics.status.group.members for name, topics in self.groups.items() if topics.status.group}

    def _epochs(self) -> int:
        """The sum of all groups' epochs."""
        return sum(topics.status.group.epoch for topics in self.groups.values() if topics.status.group)

    async def _described(self) -> set[str]:
        """All member ids, according to the coordinator."""
        async with shared_transport(self.settings) as transport:
            groups = await transport.describe(list(self.groups))
        return {member.member_id for group in groups for member in group.members}

    async def _until(self, holds: Callable[[], object], what: str) -> None:
        began = time.monotonic()
        while not holds():
            self._check_time(began, what)
            await asyncio.sleep(_LOOK_S)

    def _check_time(self, began: float, what: str) -> None:
        if time.monotonic() - began > _DEADLINE_S:
            seen = {name: len(members) for name, members in self._members().items()}
            raise TimeoutError(f"not within {_DEADLINE_S:.0f} s: {what}; members: {seen}")


def run(folder: Path) -> dict[str, Any]:
    with LocalBroker() as broker:
        airflow = LocalAirflow(
            folder / f"airflow-{os.getpid()}",
            dag_folders=[_HERE / "held_dags"],
            env={
                "BENCH_GROUPS": str(GROUPS),
                "BENCH_WORKERS": str(WORKERS),
                "PYTHONPATH": str(_HERE.parent),
            },
        )
        with airflow:
            extra = {"bootstrap.servers": broker.bootstrap_servers}
            body = {"connection_id": CONNECTION, "conn_type": "kafka", "extra": json.dumps(extra)}
            airflow.api.request("POST", "/connections", json=body)
            settings = KafkaSettings.from_extra(extra, conn_id=CONNECTION)
            figures = asyncio.run(Bench(airflow, settings).measure())
    _print(figures)
    return figures


def _print(figures: Mapping[str, Any]) -> None:
    print(f"{figures['workers']} deferred workers in {figures['groups']} groups, in one triggerer")
    for name in ("joining", "steady", "taken_over", "job", "ended"):
        print(f"  {name}: " + ", ".join(f"{key} {value}" for key, value in figures[name].items()))


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _rss_mb(process: psutil.Process) -> float:
    return round(float(process.memory_info().rss) / 2**20, 1)
