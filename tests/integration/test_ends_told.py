"""Many short tasks in worker processes on a real broker: each end is in the timeline once."""

from __future__ import annotations

from collections import Counter

import pytest
from fleet import MakeFleet, overlaps

from airflow_provider.state.records import TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import TaskId

TASKS = 1_000


@pytest.mark.thorough
@pytest.mark.parametrize("group_protocol", ["connect", "classic"])
async def test_each_end_is_recorded_once_although_the_epoch_grows_meanwhile(
    fleet: MakeFleet, group_protocol: str
) -> None:
    async with fleet("--runner", "noop", "--slots", "4", "--group-protocol", group_protocol) as group:
        await group.submit("short", tasks=TASKS, seconds=0.005)
        for worker in ("w1", "w2", "w3"):
            group.start(worker)

        def ended(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            words = [status.tasks.get(TaskId("short", index)) for index in range(TASKS)]
            return all(word is not None and word.state is TaskState.FINISHED for word in words)

        await group.wait_for(ended, "all tasks have finished")
        steps = await group.steps()
        ends = Counter(step.task for step in steps if step.state is TaskState.FINISHED)
        assert len(ends) == TASKS + 1  # and of the planner
        assert {task for task, told in ends.items() if told > 1} == set(), group.story()
        assert not overlaps(steps)
