"""Workers that differ in their slots have parts of the streams that differ in the same way."""

from __future__ import annotations

from functools import partial

import pytest
from fleet import SHORT_SESSION, Fleet, MakeFleet, overlaps

from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot

JOB = "streams"


async def shared_out(group: Fleet, **expected: int) -> None:
    """Wait until these workers run so many streams, each where it is assigned."""

    def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        record = status.group
        if record is None or record.revokes:
            return False
        owned = {
            str(worker): {task for task in tasks if task.job == JOB} for worker, tasks in record.assignment.items()
        }
        return {worker: len(tasks) for worker, tasks in owned.items()} == expected and all(
            (last := status.tasks.get(task)) and last.state is TaskState.RUNNING and last.worker == worker
            for worker, tasks in owned.items()
            for task in tasks
        )

    await group.wait_for(holds, f"the streams are shared out: {expected}")


@pytest.mark.parametrize("group_protocol", ["classic", "connect"])
async def test_each_worker_has_its_part_of_the_streams(fleet: MakeFleet, group_protocol: str) -> None:
    start = partial(fleet, "--runner", "noop", "--max-delay-ms", "0", "--group-protocol", group_protocol)
    async with start(*SHORT_SESSION) as group:
        await group.submit(JOB, tasks=6, kind=TaskKind.STREAMING)
        group.start("w2", "--slots", "2")
        group.start("w4", "--slots", "4")
        await shared_out(group, w2=2, w4=4)
        group.start("w6", "--slots", "6")
        await shared_out(group, w2=1, w4=2, w6=3)
        group.kill("w6")
        await shared_out(group, w2=2, w4=4)
        group.start("w6", "--slots", "12")
        await shared_out(group, w2=1, w4=1, w6=4)
        assert not overlaps(await group.steps())
