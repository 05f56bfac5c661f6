"""The topics of a group that knows one job."""

from __future__ import annotations

import asyncio

from stand_ins import MemoryTopics

from airflow_provider.state.records import JobDefinition, PlanRecord, TaskFailure, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, WorkerId

PLANNED_BY = WorkerId("w1")


def topics_with(job: JobDefinition, *states: TaskState) -> MemoryTopics:
    """Its tasks are in these states."""
    topics = MemoryTopics()

    async def write() -> None:
        await topics.submit(job)
        plan = PlanRecord.of(job, [{"i": index} for index in range(len(states))], planned_by=PLANNED_BY, at_ms=0)
        await topics.publish_plan(plan)
        for index, state in enumerate(states):
            await topics.publish_task(
                TaskStatus(
                    task=TaskId(job.name, index),
                    state=state,
                    epoch=Epoch(4),
                    worker=PLANNED_BY,
                    run_key=job.run_key,
                    fingerprint=plan.fingerprints[index],
                    attempt=3,
                    failures=3,
                    started_at_ms=1,
                    error=TaskFailure.of("boom"),
                )
            )

    asyncio.run(write())
    return topics
