"""How long the tasks of a lost worker stand still, in a real Airflow, with the operator's defaults and a real Spark.

A worker that stays and one that is lost share four unbounded tasks. Measured is the time from the event until the lost
worker's two tasks run again, on any worker, and its parts. Airflow is the demo's (``demo/airflow.py``), whose intervals
are shorter than Airflow's defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pendulum

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import ControlAction, ControlRecord, JobDefinition, TaskState, WorkerPhase
from airflow_provider.values.model import Tasks, WorkerId
from demo.airflow import LocalAirflow
from demo.airflow_api import TaskInstance

_HERE: Final = Path(__file__).parent
_GROUP: Final = "lost"
_TASKS: Final = 4
_STAYS: Final = WorkerId("stays.worker")
_FIRST_WORK_S: Final = 10.0
"""In seconds. A new JVM takes seconds for its first Spark job, and to cancel it, which is not to be measured."""

_LIMIT_S: Final = 450.0
"""In seconds: session, delay, and time for a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What happens to a worker.

    :param goal_s: within how many seconds its tasks should run again
    :param returns: whether it returns, and gets its own tasks back
    """

    name: str
    dag: str
    happens: Callable[[Bench, TaskInstance], Awaitable[None]]
    goal_s: float
    returns: bool = False


class Bench:
    """One Airflow and one group for all cases, one after another."""

    def __init__(self, airflow: LocalAirflow, topics: GroupTopics) -> None:
        self._airflow = airflow
        self.api = airflow.api
        self.topics = topics

    async def kill(self, worker: TaskInstance) -> None:
        os.kill(await asyncio.to_thread(self.api.running_pid, worker), 9)

    async def fail(self, worker: TaskInstance) -> None:
        await asyncio.to_thread(self.api.set_state, worker, "failed")

    async def clear(self, worker: TaskInstance) -> None:
        await asyncio.to_thread(self.api.clear, worker)

    async def stop(self, worker: TaskInstance) -> None:
        wish = ControlRecord(worker=_name(worker.dag_id), action=ControlAction.STOP, at_ms=wall_ms())
        await self.topics.publish_control(wish)

    async def start(self, dag: str) -> TaskInstance:
        await asyncio.to_thread(self.api.wait_for_dag, dag)
        run = await asyncio.to_thread(self.api.trigger, dag)
        return await asyncio.to_thread(self.api.task_instance, dag, run, "worker")

    async def runs(self, worker: WorkerId, tasks: Tasks, *, since_ms: int) -> None:
        await self.topics.wait_for(
            lambda _jobs, status: all(
                task in status.tasks
                and status.tasks[task].state is TaskState.RUNNING
                and status.tasks[task].worker == worker
                and (status.tasks[task].started_at_ms or 0) >= since_ms
                for task in tasks
            ),
            timeout_s=_LIMIT_S,
        )

    def owned(self, worker: WorkerId) -> Tasks:
        record = self.topics.status.group
        return frozenset(task for task in record.owned_by(worker) if not task.is_planner) if record else frozenset()

    async def measure(self, case: Case) -> dict[str, float]:
        """The time in seconds: ``total``, and its parts."""
        me = _name(case.dag)
        worker = await self.start(case.dag)
        await self.topics.wait_for(lambda _jobs, _status: len(self.owned(me)) == _TASKS // 2, timeout_s=_LIMIT_S)
        own = self.owned(me)
        await self.runs(me, own, since_ms=0)
        await self.runs(_STAYS, self.owned(_STAYS), since_ms=0)
        await asyncio.sleep(_FIRST_WORK_S)
        worker = await asyncio.to_thread(self.api.task_instance, worker.dag_id, worker.run_id, "worker")
        joined: list[int] = []

        def watch() -> None:
            told = self.topics.status.workers.get(me)
            back = told is not None and told.state is WorkerPhase.STABLE and own <= told.owned
            if told is not None and back and told.process != before.process:
                joined.append(told.at_ms)

        before = self.topics.status.workers[me]
        unsubscribe = self.topics.subscribe(watch)
        began = wall_ms()
        await case.happens(self, worker)
        await self.runs(me if case.returns else _STAYS, own, since_ms=began)
        unsubscribe()
        ran = max(self.topics.status.tasks[task].started_at_ms or 0 for task in own)
        parts = {"total": ran - began}
        if case.returns:
            parts |= await asyncio.to_thread(self._parts, worker, began, joined[0] if joined else ran, ran)
            worker = await asyncio.to_thread(self.api.task_instance, worker.dag_id, worker.run_id, "worker")
            await self.stop(worker)
        await self.topics.wait_for(lambda _jobs, _status: len(self.owned(_STAYS)) == _TASKS, timeout_s=_LIMIT_S)
        await self.runs(_STAYS, self.owned(_STAYS), since_ms=0)
        return {name: round(ms / 1000, 1) for name, ms in parts.items()}

    def _parts(self, worker: TaskInstance, began: int, joined: int, ran: int) -> dict[str, int]:
        path = f"/dags/{worker.dag_id}/dagRuns/{worker.run_id}/taskInstances/worker/tries"
        tries = sorted(self.api.request("GET", path)["task_instances"], key=lambda each: each["try_number"])
        last, this = tries[-2:]
        log = self.api.log(self.api.task_instance(worker.dag_id, worker.run_id, "worker"))
        line = next(line for line in log.splitlines() if f"joins group {_GROUP}" in line)
        steps = {
            "Airflow notices": _ms(last["end_date"]),
            "Airflow starts it again": _ms(this["start_date"]),
            "its process starts": _ms(line.split()[0]),
            "it joins": joined,
            "Spark starts": ran,
        }
        ends = [began, *steps.values()]
        return {name: end - start for name, start, end in zip(steps, ends, ends[1:], strict=False)}


CASES: Final = (
    Case(name="told to stop", dag="lost", happens=Bench.stop, goal_s=2),
    Case(name="marked failed", dag="lost", happens=Bench.fail, goal_s=5),
    Case(name="kill -9, retries=3, retry_delay=1 s", dag="lost", happens=Bench.kill, goal_s=12, returns=True),
    Case(name="cleared while it runs", dag="lost", happens=Bench.clear, goal_s=15, returns=True),
    Case(name="kill -9, no retries", dag="lost_for_good", happens=Bench.kill, goal_s=75),
)


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    with LocalBroker() as broker:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
        airflow = LocalAirflow(
            folder / f"airflow-{os.getpid()}",
            dag_folders=[_HERE / "lost_dags"],
            connections={"kafka_default": json.dumps(connection)},
            env={"PYTHONPATH": str(_HERE.parent)},
        )
        with airflow:
            return asyncio.run(_measure(airflow, broker.bootstrap_servers))


async def _measure(airflow: LocalAirflow, servers: str) -> dict[str, Any]:
    settings = KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="bench")
    figures: dict[str, Any] = {}
    async with shared_topics(settings, _GROUP, WORKER) as topics:
        bench = Bench(airflow, topics)
        await topics.submit(JobDefinition(name="endless", entry_point="benchmarks.jobs:endless", max_tasks=_TASKS))
        await bench.start("stays")
        await topics.wait_for(lambda _jobs, _status: len(bench.owned(_STAYS)) == _TASKS, timeout_s=_LIMIT_S)
        for case in CASES:
            parts = await bench.measure(case)
            figures[case.name] = parts | {"goal": case.goal_s, "load": round(os.getloadavg()[0], 1)}
            told = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if name != "total")
            print(
                f"{case.name}: {parts['total']:.1f} s (goal: {case.goal_s:.0f} s)"
                f"{f': {told}' if told else ''}; load {figures[case.name]['load']}",
                flush=True,
            )
    return figures


def _name(dag: str) -> WorkerId:
    return WorkerId(f"{dag}.worker")


def _ms(text: str) -> int:
    moment = pendulum.parse(text)
    assert isinstance(moment, pendulum.DateTime)
    return int(moment.timestamp() * 1000)
