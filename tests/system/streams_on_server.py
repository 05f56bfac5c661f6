"""Streams on a Spark Connect server whose workers, tasks of a real Airflow, are deferred."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_group import Group
from server_queries import active_queries

from airflow_provider.integration.one_shot import GroupSnapshot
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.values.model import TaskId
from benchmarks.batch_times import batches

JOB: Final = "ticks"
Told = Mapping[TaskId, TaskStatus]


class Streams:
    """Streams with one batch a second.

    :param checkpoints: the folder of their checkpoints
    """

    def __init__(self, group: Group, server: ConnectSettings, checkpoints: Path, *, tasks: int) -> None:
        self._group = group
        self._server = server
        self._checkpoints = checkpoints
        self._tasks = tasks

    def submit(self) -> None:
        self._group.submit(
            JOB, tasks=self._tasks, entry_point="benchmarks.jobs:ticking", kind=TaskKind.STREAMING, every_s=1
        )

    def watched(self, *workers: str) -> Told:
        """Wait until these workers are deferred, each watches some streams, and there is fresh progress of all streams.

        :returns: the streams' statuses
        """
        since_ms = time.time() * 1000

        def told(seen: GroupSnapshot) -> bool:
            running = self._running(seen)
            fresh = [last for last in running.values() if last.progress and last.progress.at_ms > since_ms]
            records = seen.status.workers
            return (
                len(fresh) == self._tasks
                and {last.worker for last in fresh} == set(workers)
                and all(records[worker].state is WorkerPhase.DEFERRED for worker in {last.worker for last in fresh})
            )

        return self._running(self._group.wait_for(told, f"{workers} watch {self._tasks} streams"))

    def ended(self) -> None:
        """Wait until all streams are recorded as stopped."""

        def stopped(seen: GroupSnapshot) -> bool:
            ours = [last for task, last in seen.status.tasks.items() if task.job == JOB and not task.is_planner]
            return len(ours) == self._tasks and all(last.state is TaskState.STOPPED for last in ours)

        self._group.wait_for(stopped, "all streams have been stopped")

    def on_server(self, told: Told) -> list[str]:
        """The run ids of the queries that the server has active in these sessions."""
        url, token = self._server.server.url, self._server.token
        return [run for last in told.values() for run in active_queries(url, last.handle["session_id"], token=token)]

    def assert_no_batch_is_missing(self) -> None:
        by_stream = batches(self._checkpoints)
        assert len(by_stream) == self._tasks
        for stream, numbers in by_stream.items():
            assert numbers == list(range(len(numbers))), stream

    def _running(self, seen: GroupSnapshot) -> Told:
        return {
            task: last
            for task, last in seen.status.tasks.items()
            if task.job == JOB and not task.is_planner and last.state is TaskState.RUNNING and last.handle["run_id"]
        }


def runs(told: Told) -> list[str]:
    """The run ids of the queries according to the records."""
    return [last.handle["run_id"] for last in told.values()]


def attempts(told: Told) -> dict[TaskId, tuple[int, object]]:
    """The attempt and the handle of each task."""
    return {task: (last.attempt, last.handle) for task, last in told.items()}
