"""Workers that differ in their slots have parts of the streams that differ in the same way; what such a group lacks."""

from __future__ import annotations

import json
from functools import partial

import pytest
from fleet import SHORT_SESSION, Fleet, MakeFleet, cospark, overlaps
from waiting import DEADLINE_S

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.metrics.missing_slots import Room, room
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


@pytest.mark.parametrize(
    "protocol",
    [
        pytest.param(("--group-protocol", "classic"), marks=pytest.mark.thorough),
        ("--group-protocol", "connect"),
        ("--connect-protocol", "extensible"),
    ],
    ids=lambda options: options[1],
)
async def test_each_worker_has_its_part_of_the_streams(fleet: MakeFleet, protocol: tuple[str, str]) -> None:
    start = partial(fleet, "--runner", "noop", "--max-delay-ms", "0", *protocol)
    async with start(*SHORT_SESSION) as group:
        await group.submit(JOB, tasks=6, kind=TaskKind.STREAMING, config={"warm_up_seconds": 0.1})
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


async def test_a_group_says_what_it_lacks_and_keeps_its_largest_workers(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--max-delay-ms", "0") as group:
        name = group.group_id

        async def has(expected: Room) -> None:
            await group.wait_for(
                lambda jobs, status: room(jobs, status, now_ms=wall_ms()) == expected, expected.in_words
            )
            assert json.loads((await cospark(group, "status", name, "--json")).out)["room"] == expected.to_json()

        await group.submit(JOB, tasks=5, kind=TaskKind.STREAMING)
        group.start("w2", "--slots", "2")
        await has(Room(workers=1, slots=2, busy=2, waiting_tasks=3, waiting_streams=3, lacking=3))
        group.start("w4", "--slots", "4")
        await has(Room(workers=2, slots=6, busy=5, spare=1))
        said = await cospark(
            group, "scale", name, "--workers", "1", "--within", "0.5", "--wait", "--timeout", str(DEADLINE_S)
        )
        assert said.status == 0, said
        assert "\n  w2: has 2 slots, runs " in said.out
        await has(Room(workers=1, slots=4, busy=4, waiting_tasks=1, waiting_streams=1, lacking=1))
