"""A worker that lacks a module which the other worker has: its tasks run there, and none of them pays for it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from fleet import Fleet, MakeFleet

from airflow_provider.state.records import TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import stands_back
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobState, job_progress
from airflow_provider.values.model import WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
MODULE: Final = "kafka_source_of_the_site"
ROOT: Final = Path(__file__).parents[2]
MAIN: Final = "import sys; from airflow_provider.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and a slot for each task."""
    return partial(fleet, "--runner", "noop", "--slots", "8", "--max-delay-ms", "0")


def start_with_module(group: Fleet, name: str, folder: Path) -> None:
    """Start a worker that finds the module."""
    (folder / f"{MODULE}.py").touch()
    path = os.pathsep.join(map(str, (folder, ROOT)))
    group.start(name, command=("env", f"PYTHONPATH={path}", sys.executable, "-c", MAIN))


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.thorough), "connect"])
async def test_its_tasks_go_elsewhere_and_it_stands_back_and_says_why(
    fleet: MakeFleet, tmp_path: Path, protocol: str
) -> None:
    """Without any retries."""
    async with fleet("--group-protocol", protocol) as group:
        group.start(W1)
        start_with_module(group, W2, tmp_path)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and set(status.group.members) == {W1, W2}, "both are there"
        )
        for job in ("a", "b"):
            await group.submit(job, tasks=4, config={"seconds": 1.0, "needs": MODULE})

        def finished(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            progress = [job_progress(job, jobs, status) for job in ("a", "b")]
            return all(each is not None and each.state is JobState.FINISHED for each in progress)

        await group.wait_for(finished, "all tasks have finished")
        lasts = [last for task, last in group.topics.status.tasks.items() if not task.is_planner]
        assert {(last.worker, last.state) for last in lasts} == {(W2, TaskState.FINISHED)}, group.story()
        await group.wait_for(lambda _jobs, status: W1 in stands_back(status), "w1 stands back")
        assert stands_back(group.topics.status)[W1].endswith(f"the last one by No module named {MODULE!r}")
        steps = await group.steps()
        failed = [step for step in steps if step.failures and step.worker == W1]
        assert failed, "some were tried there"
        assert {step.failures for step in failed} == {1}
        for task, begun in (await group.starts()).items():
            # It may have run on w2 before, until the group was in balance.
            assert [each.worker for each in begun].count(W1) <= 1, f"{task} failed twice: {begun}\n{group.story()}"
        assert len(await group.rounds()) <= len(steps) + 3, "at most one each time that something happened"
