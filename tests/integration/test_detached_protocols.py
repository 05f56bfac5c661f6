"""Detached streams keep running when they move between workers that learn tasks, or in a declarative group."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from detached_bench import Life, over
from fleet import SHORT_SESSION, Fleet, MakeFleet, cospark
from server_queries import active_queries
from waiting import DEADLINE_S

from airflow_provider.integration.memberships.group_protocols import GroupProtocolName
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.exit_requests import ExitRequests

MODULE = "airflow_provider.example_dags.jobs"
JOB = "ticks"
W1 = WorkerId("w1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """:param leave: the command by which a worker leaves a group in which others stay"""

    name: str
    connect_protocol: ConnectProtocol
    group_protocol: GroupProtocolName
    leave: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """Options of ``cospark worker``."""
        return ("--connect-protocol", self.connect_protocol.value, "--group-protocol", self.group_protocol.value)


LEARNS = Protocol(
    name="extensible",
    connect_protocol=ConnectProtocol.EXTENSIBLE,
    group_protocol=GroupProtocolName.CLASSIC,
    leave=("scale", "{group}", "--without", "{worker}"),
)
DECLARATIVE = Protocol(
    name="declarative",
    connect_protocol=ConnectProtocol.SESSIONED,
    group_protocol=GroupProtocolName.CONNECT,
    leave=("workers", "stop", "{group}", "{worker}"),
)
each_protocol = pytest.mark.parametrize(
    "protocol",
    [pytest.param(LEARNS, id=LEARNS.name, marks=pytest.mark.thorough), pytest.param(DECLARATIVE, id=DECLARATIVE.name)],
)


@pytest.fixture(autouse=True)
def connection(broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_BROKER", json.dumps({"conn_type": "kafka", "extra": extra}))


class Streams:
    """The streams of a group, whose queries must stay the same."""

    def __init__(self, group: Fleet, server: LocalConnectServer, *, tasks: int) -> None:
        self._group = group
        self._server = server
        self._tasks = frozenset(TaskId(JOB, index) for index in range(tasks))
        self._began: Mapping[TaskId, Any] = {}

    async def begin(self, worker: str) -> None:
        """Start all of them on one worker."""
        entry_point = f"{MODULE}:Ticks"
        await self._group.submit(JOB, tasks=len(self._tasks), kind=TaskKind.STREAMING, entry_point=entry_point)
        self._group.start(worker)
        await self.begun()

    async def begun(self) -> None:
        def have_run_ids(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            last = [status.tasks.get(task) for task in self._tasks]
            return all(each and each.state is TaskState.RUNNING and each.handle["run_id"] for each in last)

        await self._group.wait_for(have_run_ids, "all streams run, with the ids of their queries")
        self._began = {task: last.handle for task, last in self._last().items()}

    async def at(self, *workers: str) -> None:
        """Wait until exactly these workers share the streams evenly, and report progress of the same queries."""
        most = -(-len(self._tasks) // len(workers))
        before = {task: last.progress.batch if last.progress else -1 for task, last in self._last().items()}

        def shared(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            last = [status.tasks[task] for task in self._tasks]
            whose = [each.worker for each in last]
            return (
                present(status) == set(workers) == set(whose)
                and all(status.owner_of(each.task) == each.worker for each in last)
                and max(whose.count(worker) for worker in set(whose)) <= most
                and all(self._goes_on(each, before[each.task]) for each in last)
            )

        await self._group.wait_for(shared, f"the streams are watched by {', '.join(workers)}, and go on")
        for handle in self._began.values():
            assert active_queries(self._server.url, handle["session_id"]) == [handle["run_id"]]

    async def were_never_stopped(self) -> None:
        steps = [step for step in await self._group.steps() if step.task in self._tasks]
        assert {step.attempt for step in steps} == {1}
        assert TaskState.STOPPED not in {step.state for step in steps}

    def _goes_on(self, last: TaskStatus, batch: int) -> bool:
        if last.state is not TaskState.RUNNING:
            return False
        assert (last.attempt, last.handle) == (1, self._began[last.task]), "no stop, no start"
        return last.progress is not None and last.progress.batch > batch

    def _last(self) -> Mapping[TaskId, TaskStatus]:
        return {task: self._group.topics.status.tasks[task] for task in self._tasks}


def options_of(protocol: Protocol, server: LocalConnectServer, folder: Path) -> tuple[str, ...]:
    """Options of ``cospark worker``."""
    jobs = ("--allow", MODULE, "--checkpoint-root", str(folder / "checkpoints"), "--slots", "4")
    return ("--spark-master", server.url, *jobs, "--progress-interval", "1", *protocol.options)


@each_protocol
@pytest.mark.thorough
async def test_workers_come_leave_and_are_killed_and_the_queries_stay_the_same(
    protocol: Protocol, fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(protocol, server, tmp_path), *SHORT_SESSION, "--max-delay-ms", "0") as group:
        streams = Streams(group, server, tasks=4)
        await streams.begin("w1")
        group.start("w2")
        await streams.at("w1", "w2")
        group.send("w1", signal.SIGTERM)
        assert await group.ended("w1") == [0]
        await streams.at("w2")
        group.start("w1")
        await streams.at("w1", "w2")
        group.kill("w2")
        await streams.at("w1")
        await streams.were_never_stopped()
        for worker in ("w1", "w2"):
            assert "a fault of this program" not in group.log_of(worker)

        assert (await cospark(group, "jobs", "remove", group.group_id, JOB)).status == 0
        await group.wait_for(lambda _, status: not status.tasks, "queries without a worker are ended")


@each_protocol
async def test_a_deferred_worker_gives_and_takes_streams_without_its_process(
    protocol: Protocol, fleet: MakeFleet, server: LocalConnectServer, tmp_path: Path
) -> None:
    async with fleet(*options_of(protocol, server, tmp_path)) as group:
        life = Life(
            group,
            W1,
            server.url,
            tmp_path / "checkpoints",
            module=MODULE,
            connect_protocol=protocol.connect_protocol,
            group_protocol=protocol.group_protocol,
        )
        streams = Streams(group, server, tasks=2)
        await group.submit(JOB, tasks=2, kind=TaskKind.STREAMING, entry_point=f"{MODULE}:Ticks")
        outcome = await asyncio.wait_for(life.in_process(ExitRequests(), linger_s=2.0), DEADLINE_S)
        assert outcome.ending is Ending.HANDED_OVER
        assert outcome.saved is not None
        await streams.begun()
        trigger = life.trigger(outcome.saved)
        deferred = asyncio.ensure_future(anext(trigger.run()))
        await group.wait_for(lambda _, status: status.workers[W1].state is WorkerPhase.DEFERRED, "the trigger has it")

        group.start("w2")
        await streams.at("w1", "w2")
        leave = (word.format(group=group.group_id, worker="w2") for word in protocol.leave)
        assert (await cospark(group, *leave)).status == 0
        assert await group.ended("w2") == [0]
        await streams.at("w1")
        assert not deferred.done(), "it adopts running queries without a process"
        assert group.topics.status.workers[W1].state is WorkerPhase.DEFERRED
        await streams.were_never_stopped()

        assert (await cospark(group, "jobs", "remove", group.group_id, JOB)).status == 0
        await group.wait_for(lambda _, status: not status.tasks, "queries without a worker are ended")
        await over(trigger, deferred)
