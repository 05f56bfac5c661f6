"""Worker processes in a declarative group, on a real broker; they coordinate it themselves."""

from __future__ import annotations

import itertools
import json
import signal
from functools import partial

import pytest
from fleet import SHORT_SESSION, MakeFleet, cospark, overlaps

from airflow_provider.state.records import TaskKind
from airflow_provider.state.views.task_progress.progress import group_drained


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and enough slots; lost tasks go to others immediately."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--max-delay-ms", "0", "--group-protocol", "connect")


async def test_workers_come_leave_and_are_lost_and_nothing_runs_twice(fleet: MakeFleet) -> None:
    async with fleet(*SHORT_SESSION) as group:
        await group.submit("streams", tasks=8, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        group.start("w2")
        await group.balanced("w1", "w2")
        group.start("w3")
        await group.balanced("w1", "w2", "w3")
        group.kill("w2")
        await group.balanced("w1", "w3")
        group.start("w2")
        await group.balanced("w1", "w2", "w3")
        group.send("w1", signal.SIGTERM)
        assert await group.ended("w1") == [0]
        await group.balanced("w2", "w3")
        assert not overlaps(await group.steps())
        for worker in ("w1", "w2", "w3"):
            assert "a fault of this program" not in group.log_of(worker)


async def test_a_busy_group_is_described_as_of_one_moment(fleet: MakeFleet) -> None:
    """Meanwhile each end of a task begins a new epoch."""
    async with fleet() as group:
        submitted = itertools.count()

        async def submit_short_tasks() -> None:
            await group.submit(f"short{next(submitted)}", tasks=3_000, seconds=1.0)

        await submit_short_tasks()
        for worker in ("w1", "w2", "w3"):
            group.start(worker)
        await group.wait_for(lambda _jobs, status: status.group is not None, "there is a target")
        seen: set[int] = set()
        while len(seen) < 5:
            if group_drained(group.topics.jobs, group.topics.status.tasks):
                await submit_short_tasks()
            said = await cospark(group, "groups", "describe", group.group_id, "--json")
            assert (said.status, said.err) == (0, "")
            about = json.loads(said.out)
            declared = about["declarative"]
            seen.add(about["epoch"])
            assert about["epoch"] == declared["assignment_epoch"] <= declared["epoch"]
            assert all(member["epoch"] <= declared["assignment_epoch"] for member in declared["members"])
            held = [tuple(task) for member in declared["members"] for task in member["assigned"] + member["revoking"]]
            assert len(held) == len(set(held))
            targets = {member["worker"]: member["target"] for member in declared["members"]}
            for member in about["members"]:
                assert all(task in targets[member["worker"]] for task in member["assigned"])
