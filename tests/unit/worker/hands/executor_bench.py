"""An executor with a runner that a test moves by hand, and topics in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from execution_settings import execution_settings
from stand_ins import HandRunner, MemoryTopics
from waiting import eventually

from airflow_provider.kafka.topics.errors import BrokerAwayError
from airflow_provider.spark.attempts.failures import Mask, nothing_secret
from airflow_provider.spark.runner import OnEvent, Runner
from airflow_provider.spark.runners.detached_queries import MakeQueries, nothing_detached
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId, planner_of
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.log_levels import LogLevels
from airflow_provider.worker.tasks.runs.run_state import RunState

ME = WorkerId("w1")
A0, A1, A2, A3 = (TaskId("a", index) for index in range(4))
PLANNER = planner_of("a")
AWAY = BrokerAwayError("nowhere:9", "writing", "")


class Bench:
    """An executor, what it was given to work with, and what it said."""

    def __init__(
        self,
        topics: MemoryTopics,
        *,
        slots: int,
        linger_s: float,
        mask: Mask = nothing_secret,
        worker: WorkerId = ME,
        lease_ms: int = 60_000,
        checkpoint_root: str | None = "/checkpoints",
        log_levels: LogLevels | None = None,
        make_queries: MakeQueries = nothing_detached,
    ) -> None:
        self.topics = topics
        self.stopped: list[Tasks] = []
        self.finished: list[Tasks] = []
        self.runner: Any = None
        self.executor = TaskExecutor(
            execution_settings(
                worker=worker, slots=slots, lease_ms=lease_ms, linger_ms=round(linger_s * 1000), mask=mask
            ),
            group_id="g",
            topics=topics,
            make_runner=self._make_runner,
            checkpoint_root=checkpoint_root,
            stopped=self.stopped.append,
            finished=self.finished.append,
            changed=lambda: None,
            log_levels=log_levels,
            make_queries=make_queries,
        )
        topics.subscribe(self.executor.refresh)

    def _make_runner(self, on_event: OnEvent) -> Runner:
        runner = self.runner = HandRunner(on_event)
        return runner

    async def submit(self, *, tasks: int = 2, config: Any = None, **definition: Any) -> JobDefinition:
        """A job with its plan made, each task configured alike."""
        job = JobDefinition(name="a", entry_point="m:f", config=config or {}, max_tasks=1_000, **definition)
        await self.topics.submit(job)
        await self.plan(job, [{"i": index, **job.config} for index in range(tasks)])
        return job

    async def plan(self, job: JobDefinition, configs: list[dict[str, Any]]) -> None:
        await self.topics.publish_plan(PlanRecord.of(job, configs, planned_by=ME, at_ms=0))

    def take(self, *tasks: TaskId, epoch: int = 1) -> None:
        self.executor.take(frozenset(tasks), Epoch(epoch))

    def stop(self, *tasks: TaskId) -> None:
        self.executor.stop(frozenset(tasks), "revoked")

    def state(self, task: TaskId) -> TaskState | None:
        status = self.topics.status.tasks.get(task)
        return status.state if status else None

    def state_here(self, task: TaskId) -> RunState | None:
        """Where the task is in this worker."""
        return self.executor._execution.state_of(task)

    def told(self, task: TaskId) -> TaskStatus:
        return self.topics.status.tasks[task]

    async def runs(self, *tasks: TaskId) -> None:
        """Wait until exactly these run, the topic says so, and their code is called: it can be read before that."""
        await eventually(
            lambda: (
                self.runner.running == self.runner.begun == frozenset(tasks)
                and all(self.state(task) is TaskState.RUNNING for task in tasks)
            ),
            lambda: f"{tasks} run, not {self.runner.begun} of {self.runner.running}",
        )

    async def becomes(self, task: TaskId, state: TaskState | None) -> None:
        await eventually(lambda: self.state(task) is state, lambda: f"{task} {state}, not {self.state(task)}")

    async def releases(self, *tasks: TaskId, into: list[Tasks]) -> None:
        await eventually(lambda: frozenset().union(*into) >= frozenset(tasks), f"{tasks} are released")


@asynccontextmanager
async def bench(
    *,
    slots: int = 2,
    linger_s: float = 60,
    mask: Mask = nothing_secret,
    checkpoint_root: str | None = "/checkpoints",
) -> AsyncIterator[Bench]:
    made = Bench(MemoryTopics(), slots=slots, linger_s=linger_s, mask=mask, checkpoint_root=checkpoint_root)
    try:
        yield made
    finally:
        made.runner.stubborn.clear()
        await made.executor.close()
    assert made.executor.fault is None
