"""How long streams have no batch while parts of Airflow are killed. ``python -m benchmarks detached_kill``.

A real Airflow with two workers, and 20 small streams on a real Spark Connect server (``STREAMS`` in the environment),
each with a batch every ``EVERY_S`` seconds. The triggerer, then the workers' processes, then the scheduler (whose
children they are) are killed with SIGKILL. A triggerer and a scheduler are started again immediately, and Airflow's
retries bring the workers back. Measured is the longest time without a batch of any stream: with detached streams, with
attached ones on the same server, and where each worker has a Spark of its own. Detached streams need no process of a
worker, so before its processes are killed each worker is given a task that does.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import ControlAction, ControlRecord, JobDefinition, TaskKind, TaskState, WorkerPhase
from airflow_provider.worker.process_identity import has_ended
from benchmarks.batch_times import ends_of_batches, longest_gap
from benchmarks.footprint import Footprint, footprint, load
from demo.airflow import LocalAirflow
from demo.airflow_api import TaskInstance

_HERE: Final = Path(__file__).parent
_STREAMS: Final = int(os.environ.get("STREAMS", "20"))
_EVERY_S: Final = float(os.environ.get("EVERY_S", "2"))
_WORKERS: Final = 2
_STEADY: Final = 5
"""After so many batches a stream has reached its normal pace."""
_LIMIT_S: Final = 400.0
_WAYS: Final = ("detached", "attached", "own_spark")


class Streams:
    """The streams of one way to run them, and their workers.

    :param way: the name of the DAG, the group and the checkpoint folder
    """

    def __init__(self, airflow: LocalAirflow, topics: GroupTopics, folder: Path, way: str) -> None:
        self._airflow = airflow
        self._topics = topics
        self._root = folder / way
        self._way = way
        self._run_id = ""

    async def start(self) -> None:
        config = {"every_s": _EVERY_S}
        await self._topics.submit(
            JobDefinition(
                name="ticks",
                entry_point="benchmarks.jobs:ticking",
                kind=TaskKind.STREAMING,
                max_tasks=_STREAMS,
                config=config,
                retries=3,
            )
        )
        await asyncio.to_thread(self._airflow.api.wait_for_dag, self._way)
        self._run_id = await asyncio.to_thread(self._airflow.api.trigger, self._way)
        await self.come_to_rest()

    async def come_to_rest(self) -> None:
        """Wait until the streams are watched and have batches, and workers with nothing else to run are deferred."""
        await self._in_phase(WorkerPhase.DEFERRED if self._way == "detached" else WorkerPhase.STABLE)
        await self._watched_since(time.time())
        await self._tick()

    async def _in_phase(self, phase: WorkerPhase) -> None:
        def there() -> bool:
            workers = self._topics.status.workers.values()
            return len(workers) == _WORKERS and all(each.state is phase for each in workers)

        await until(there, f"{self._way}: the workers are {phase.value}")

    async def _watched_since(self, since: float) -> None:
        """Wait until a worker has reported newer progress of each stream."""

        def told() -> bool:
            tasks = [last for last in self._topics.status.tasks.values() if last.kind is TaskKind.STREAMING]
            running = [last for last in tasks if last.state is TaskState.RUNNING and last.progress is not None]
            return sum(last.progress.at_ms > since * 1000 for last in running if last.progress) == _STREAMS

        await until(told, f"{self._way}: {_STREAMS} streams are watched")

    async def _tick(self) -> None:
        since = time.time()

        def ticked() -> bool:
            streams = ends_of_batches(self._root).values()
            late = [ends for ends in streams if sum(end > since for end in ends) < _STEADY]
            return len(streams) == _STREAMS and not late

        await until(ticked, f"{self._way}: each stream has {_STEADY} batches")

    def longest_gap(self, began: float, ended: float) -> float:
        return max(longest_gap(ends, began, ended) for ends in ends_of_batches(self._root).values())

    def footprint(self) -> Footprint:
        return footprint(self._airflow, self.workers())

    def workers(self) -> list[TaskInstance]:
        return self._airflow.api.task_instances(self._way, self._run_id)

    async def measure(self, kill: Callable[[Streams], Awaitable[None]]) -> dict[str, float]:
        """The longest time without a batch of any stream, and the time until all are watched, in seconds."""
        began = time.time()
        await kill(self)
        await self._watched_since(time.time())
        watched = time.time()
        await self._tick()
        gap = self.longest_gap(began, time.time())
        return {"gap_s": round(gap, 2), "unwatched_s": round(watched - began, 1), "load": load()}

    async def kill_triggerer(self) -> None:
        self._airflow.kill_triggerer()
        self._airflow.start_triggerer()

    async def kill_scheduler(self) -> None:
        self._airflow.kill_scheduler()
        self._airflow.start_scheduler()
        healthy = lambda: self._airflow.api.health().get("scheduler") == "healthy"  # noqa: E731
        await until(healthy, "the scheduler is back")

    async def kill_processes(self) -> None:
        pids = [worker.pid for worker in await asyncio.to_thread(self.workers) if worker.state == "running"]
        assert len(pids) == _WORKERS, pids
        held = [each.process for each in self._topics.status.workers.values()]
        for pid in pids:
            assert pid is not None
            os.kill(pid, 9)
        await until(lambda: all(map(has_ended, held)), "the processes have ended")

    async def come_to_processes(self) -> None:
        """Give each worker a task that needs a process."""
        await self._topics.submit(JobDefinition(name="held", entry_point="benchmarks.jobs:endless", max_tasks=_WORKERS))
        await self._in_phase(WorkerPhase.STABLE)

        def running() -> bool:
            return all(worker.state == "running" and worker.pid for worker in self.workers())

        await until(running, "both workers are in processes")

    async def leave_processes(self) -> None:
        await self._topics.remove("held")
        await self.come_to_rest()

    async def end(self) -> None:
        await self._topics.remove("ticks")
        for worker in list(self._topics.status.workers):
            wish = ControlRecord(worker=worker, action=ControlAction.STOP, at_ms=wall_ms())
            await self._topics.publish_control(wish)
        await until(lambda: all(each.state == "success" for each in self.workers()), "the workers have left")


async def until(holds: Callable[[], bool], what: str) -> None:
    """:raises TimeoutError: if it does not happen in time"""
    deadline = time.monotonic() + _LIMIT_S
    while not await asyncio.to_thread(holds):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_LIMIT_S:.0f} s: {what}")
        await asyncio.sleep(0.5)


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    folder = folder / f"{time.time():.0f}"
    with LocalBroker() as broker, LocalConnectServer(start_timeout_s=240) as server:
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
        port = int(server.url.rpartition(":")[2])
        spark = {"conn_type": "spark_connect", "host": "localhost", "port": port}
        airflow = LocalAirflow(
            folder / "airflow",
            dag_folders=[_HERE / "kill_dags"],
            connections={"kafka_default": json.dumps(kafka), "spark_connect_default": json.dumps(spark)},
            env={
                "PYTHONPATH": str(_HERE.parent),
                "KILL_FOLDER": str(folder),
                "KILL_SLOTS": str(_STREAMS // _WORKERS + 2),
            },
        )
        with airflow:
            return asyncio.run(_measure(airflow, broker.bootstrap_servers, folder))


async def _measure(airflow: LocalAirflow, servers: str, folder: Path) -> dict[str, Any]:
    settings = KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="bench")
    print(
        f"{_STREAMS} streams with a batch every {_EVERY_S:g} s, {_WORKERS} workers, {os.cpu_count()} cores", flush=True
    )
    before = footprint(airflow, [])
    figures: dict[str, Any] = {"before": before.to_json()}
    print(f"the triggerer with nothing to do: {before.triggerer_mb:.0f} MB", flush=True)
    for way in os.environ.get("WAYS", " ".join(_WAYS)).split():
        async with shared_topics(settings, way, WORKER) as topics:
            figures[way] = await _measure_way(Streams(airflow, topics, folder, way), way)
        if way != "detached" and "detached" in figures:
            figures[way]["ratios"] = _ratios(figures["detached"], figures[way])
    return figures


def _ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float]:
    ratios = {name: round(told["gap_s"] / theirs[name]["gap_s"], 2) for name, told in ours.items() if "gap_s" in told}
    for name, ratio in ratios.items():
        print(f"  detached / these, {name}: {ratio:.2f}", flush=True)
    return ratios


async def _measure_way(streams: Streams, way: str) -> dict[str, Any]:
    await streams.start()
    taken = await asyncio.to_thread(streams.footprint)
    print(
        f"{way}: {taken.running} running task instances, {taken.jvms} JVMs, workers {taken.worker_mb:.0f} MB,"
        f" triggerer {taken.triggerer_mb:.0f} MB",
        flush=True,
    )
    figures: dict[str, Any] = {"footprint": taken.to_json()}

    async def measure(name: str, kill: Callable[[Streams], Awaitable[None]]) -> None:
        figures[name] = told = await streams.measure(kill)
        print(
            f"  {name}: {told['gap_s']:.2f} s without a batch, all watched after {told['unwatched_s']:.0f} s;"
            f" load {told['load']}",
            flush=True,
        )

    await measure("nothing", _nothing)
    await measure("the triggerer", Streams.kill_triggerer)
    await streams.come_to_rest()
    if way == "detached":
        await streams.come_to_processes()
    await measure("the workers' processes", Streams.kill_processes)
    if way == "detached":
        await streams.leave_processes()
    await measure("the scheduler", Streams.kill_scheduler)
    await streams.end()
    return figures


async def _nothing(_streams: Streams) -> None:
    await asyncio.sleep(20)
