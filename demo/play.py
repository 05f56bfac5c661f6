"""The demo's script: three workers begin, a fourth joins, one is killed with SIGKILL, the group completes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import SUBMITTER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import Event, TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobProgress, converged, job_progress
from airflow_provider.values.model import TaskId, WorkerId
from demo.airflow import LocalAirflow
from demo.events import read_events
from demo.report import Kill

GROUP: Final = "flights"
JOB: Final = "monthly-delays"
_DAG: Final = "flights"
_LATE_DAG: Final = "flights_late_worker"
_VICTIM: Final = 2
_LIMIT_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What was observed.

    :param kills: the workers that the demo has killed
    :param runs: DAG id -> the final state of its run
    """

    events: Sequence[Event]
    kills: Sequence[Kill]
    results: Sequence[dict[str, Any]]
    errors: Sequence[str]
    runs: dict[str, str]
    ended_ms: int


class Play:
    """Runs the script once."""

    def __init__(self, airflow: LocalAirflow, bootstrap_servers: str) -> None:
        self._airflow = airflow
        self._settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="demo")
        self._began = time.monotonic()
        self._kills: list[Kill] = []
        self._runs: dict[str, str] = {}
        self._seen_epoch = 0
        self._seen: dict[TaskId, TaskStatus] = {}

    def run(self) -> Observed:
        return asyncio.run(self._run())

    async def _run(self) -> Observed:
        self._began = time.monotonic()
        async with shared_topics(self._settings, GROUP, SUBMITTER) as topics:
            unsubscribe = topics.subscribe(lambda: self._show(topics))
            try:
                progress = await self._play(topics)
            finally:
                unsubscribe()
            results = [status.result for status in topics.status.tasks.values() if not status.task.is_planner]
        ended_ms = wall_ms()
        states = {dag: await self._end_of(dag) for dag in self._runs}
        return Observed(
            events=await asyncio.to_thread(read_events, self._settings, GROUP),
            kills=self._kills,
            results=[result for result in results if result is not None],
            errors=[f"{task}: {error.message}" for task, error in progress.errors.items()],
            runs=states,
            ended_ms=ended_ms,
        )

    async def _play(self, topics: GroupTopics) -> JobProgress:
        await self._trigger(_DAG)
        await topics.wait_for(lambda _jobs, status: _running(status) > 0, timeout_s=_LIMIT_S)
        await self._trigger(_LATE_DAG)
        await topics.wait_for(lambda _jobs, status: _joined(status, 4), timeout_s=_LIMIT_S)
        await topics.wait_for(lambda _jobs, status: _busy(status, f"worker-{_VICTIM}"), timeout_s=_LIMIT_S)
        await self._kill()
        await topics.wait_for(
            lambda jobs, status: (found := job_progress(JOB, jobs, status)) is not None and found.complete,
            timeout_s=_LIMIT_S,
        )
        progress = job_progress(JOB, topics.jobs, topics.status)
        assert progress is not None
        self._say(f"job {JOB}: {progress.state.value}")
        return progress

    async def _trigger(self, dag: str) -> None:
        api = self._airflow.api
        await asyncio.to_thread(api.wait_for_dag, dag)
        await asyncio.to_thread(api.unpause, dag)
        self._runs[dag] = await asyncio.to_thread(api.trigger, dag)
        self._say(f"Airflow: DAG {dag} begins")

    async def _kill(self) -> None:
        instance = await asyncio.to_thread(self._airflow.api.task_instance, _DAG, self._runs[_DAG], f"worker_{_VICTIM}")
        pid = await asyncio.to_thread(self._airflow.api.running_pid, instance)
        os.kill(pid, signal.SIGKILL)
        self._kills.append(Kill(worker=WorkerId(f"worker-{_VICTIM}"), at_ms=wall_ms()))
        self._say(f"worker-{_VICTIM}: its process {pid} was killed with SIGKILL")

    async def _end_of(self, dag: str) -> str:
        return str(await asyncio.to_thread(self._airflow.api.wait_for_run, dag, self._runs[dag]))

    # ---- progress

    def _show(self, topics: GroupTopics) -> None:
        status = topics.status
        if status.group is not None and status.group.epoch > self._seen_epoch:
            self._seen_epoch = status.group.epoch
            have = ", ".join(f"{worker} {len(tasks)}" for worker, tasks in sorted(status.group.assignment.items()))
            revoked = sum(map(len, status.group.revoked.values()))
            self._say(
                f"epoch {status.group.epoch}: {status.group.because} -> {have}"
                + (f"; {revoked} to move" if revoked else "")
            )
        for task, told in status.tasks.items():
            if self._seen.get(task) != told and not task.is_planner:
                self._seen[task] = told
                self._show_task(told)

    def _show_task(self, told: TaskStatus) -> None:
        if told.state in (TaskState.PENDING, TaskState.UNASSIGNED) and told.error is None:
            return
        done = sum(status.state is TaskState.FINISHED for status in self._seen.values())
        self._say(
            f"  {told.task} {told.state.value} at {told.worker}"
            + (f", attempt {told.attempt}" if told.attempt > 1 else "")
            + (f" ({done} of 12 done)" if told.state is TaskState.FINISHED else "")
            + (f", {told.work.in_words()}" if told.work and told.state is TaskState.RUNNING else "")
            + (f": {told.error.message}" if told.error else "")
        )

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


def _running(status: StatusSnapshot) -> int:
    return sum(told.state is TaskState.RUNNING and not task.is_planner for task, told in status.tasks.items())


def _joined(status: StatusSnapshot, members: int) -> bool:
    return status.group is not None and len(status.group.members) == members and converged(status.group, status.workers)


def _busy(status: StatusSnapshot, worker: str) -> bool:
    return any(
        told.state is TaskState.RUNNING and told.worker == worker and not task.is_planner
        for task, told in status.tasks.items()
    )
