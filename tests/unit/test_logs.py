"""What is written to a group's topics, and what of it holds when others write at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stand_ins import MemoryLogs
from waiting import eventually

from airflow_provider.kafka.records import TaskState, TaskStatus, task_key
from airflow_provider.membership.model import Epoch, TaskId, WorkerId

TASK = TaskId("a", 0)
RUNNING = TaskStatus(
    task=TASK, state=TaskState.RUNNING, epoch=Epoch(5), worker=WorkerId("w1"), run_key="r1", started_at_ms=1
)
FINISHED = replace(RUNNING, state=TaskState.FINISHED, finished_at_ms=2)
LATE = replace(RUNNING, epoch=Epoch(4))
"""Of a worker that has been asleep."""


async def test_a_mended_record_that_lands_after_the_end_of_its_attempt_does_not_bring_it_back() -> None:
    logs = MemoryLogs()
    await logs.publish_task(RUNNING)
    await logs.publish_task(LATE)
    logs.takes_s = 0.05
    mending = asyncio.ensure_future(logs.reassert())
    await eventually(lambda: logs.writing)
    logs.takes_s = 0.0
    await logs.publish_task(FINISHED)
    assert await mending == 1
    assert logs.status.tasks[TASK] == FINISHED
    assert logs.status.overwritten == {task_key(TASK): FINISHED}, "compaction would keep what was mended"
    assert await logs.reassert() == 1
    assert (logs.status.tasks[TASK], dict(logs.status.overwritten)) == (FINISHED, {})


async def test_what_has_landed_by_the_time_of_mending_is_read_before() -> None:
    class Behind(MemoryLogs):
        """The end lies in the topic, and has not been read."""

        async def catch_up(self, *, timeout_s: float = 30.0) -> None:
            await self.publish_task(FINISHED)

    logs = Behind()
    await logs.publish_task(RUNNING)
    await logs.publish_task(LATE)
    assert await logs.reassert() == 0
    assert logs.status.tasks[TASK] == FINISHED
