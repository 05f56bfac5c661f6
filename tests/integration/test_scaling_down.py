"""A group on a real broker gets smaller: its workers drain, or their tasks move warm if the group learns tasks."""

from __future__ import annotations

import json

import pytest
from fleet import Fleet, MakeFleet, cospark, overlaps
from waiting import DEADLINE_S, SLOWNESS, eventually

from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.reports.learners import LearnerTask, learners
from airflow_provider.state.views.task_progress.progress import JobState, job_progress
from airflow_provider.values.model import WorkerId


async def running(group: Fleet, number: int) -> None:
    await group.wait_for(
        lambda _jobs, status: (
            sum(told.state is TaskState.RUNNING and not told.task.is_planner for told in status.tasks.values())
            == number
        ),
        f"{number} tasks run",
    )


def asked(out: str) -> str:
    """The worker that was asked to leave, from the second line of the output."""
    return out.splitlines()[1].strip().partition(":")[0]


LEARNS = "they finish their batch tasks, and leave when others have learned and taken over the rest"
LEARNS_NOTHING = "this group learns no tasks: they start no more tasks, and"


@pytest.mark.parametrize(
    ("protocol", "what_follows", "says"),
    [
        ("extensible", LEARNS, "it gets no more tasks, finishes its batch tasks, and leaves when"),
        ("sessioned", LEARNS_NOTHING, "this group learns no tasks, so it starts no more tasks, and leaves when"),
    ],
    ids=("learning", "learning nothing"),
)
async def test_a_worker_asked_to_leave_finishes_its_tasks_and_nothing_runs_twice(
    fleet: MakeFleet, protocol: str, what_follows: str, says: str
) -> None:
    async with fleet("--runner", "noop", "--slots", "1", "--connect-protocol", protocol) as group:
        name, workers = group.group_id, ("w1", "w2", "w3")
        for worker in workers:
            group.start(worker)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and len(status.group.members) == 3, "all have joined"
        )
        dry = json.loads((await cospark(group, "scale", name, "--to", "60%", "--dry-run", "--json")).out)
        assert (len(dry["asked"]), len(dry["stay"]), dry["dry_run"]) == (1, 2, True)
        refused = await cospark(group, "scale", name, "--without", "w1", "w9")
        assert (refused.status, refused.err) == (
            1,
            f"cospark scale: group '{name}': w9: not in it; in it: w1, w2, w3\n",
        )
        await group.topics.catch_up()
        assert not group.topics.jobs.controls, "no worker was asked to leave"

        # Six for the two that stay: of an odd number, the last one that waits could be revoked in the moment it starts.
        await group.submit("etl", tasks=7, seconds=4)
        await running(group, 3)
        said = await cospark(group, "scale", name, "--to", "60%", "--wait", "--timeout", str(DEADLINE_S))
        assert said.status == 0, said
        assert said.out.startswith(f"group {name}: asked to leave: 1 of 3 workers, 2 stay (")
        assert f"\n{what_follows}" in said.out
        assert "\nit has left, " in said.out
        gone = asked(said.out)
        assert await group.ended(gone) == [0]
        await eventually(lambda: says in group.log_of(gone), "it says what it does")

        await group.wait_for(
            lambda jobs, status: (
                (progress := job_progress("etl", jobs, status)) is not None and progress.state is JobState.FINISHED
            ),
            "all is done",
        )
        assert await group.stops() == set(), "nothing was stopped"
        assert {len(starts) for starts in (await group.starts()).values()} == {1}, "and nothing was started twice"

        again = await cospark(group, "scale", name, "--to", "60%")
        assert (again.status, again.out) == (2, "")
        assert "no worker is left to ask: it has 2 workers, and 60% of 2, rounded up, are 2\n" in again.err


async def test_a_worker_that_has_not_left_in_time_stops_what_it_runs(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "2", "--connect-protocol", "sessioned") as group:
        name, workers = group.group_id, ("w1", "w2")
        for worker in workers:
            group.start(worker)
        await group.submit("forever", tasks=2, kind=TaskKind.STREAMING)
        await group.balanced(*workers)
        said = await cospark(
            group, "scale", name, "--workers", "1", "--within", "0.5", "--wait", "--timeout", str(DEADLINE_S)
        )
        assert said.status == 0, said
        late = asked(said.out)
        assert await group.ended(late) == [0]
        told = "was to leave its group within 0.5 s: it stops what it still runs, and leaves"
        await eventually(lambda: told in group.log_of(late), "it says that its time was over")
        (left,) = set(workers) - {late}
        await group.wait_for(
            lambda jobs, status: (
                status.group is not None and len(status.group.owned_by(WorkerId(left))) == 2 and not jobs.controls
            ),
            "the worker that stays has all tasks, and no request is left",
        )


async def test_a_worker_asked_to_leave_stays_until_its_tasks_have_moved_warm(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "4", "--connect-protocol", "extensible") as group:
        name, workers, warm_up_ms = group.group_id, ("w1", "w2", "w3"), round(5_000 * SLOWNESS)
        for worker in workers:
            group.start(worker)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and len(status.group.members) == 3, "all have joined"
        )
        config = {"warm_up_seconds": warm_up_ms / 1000}
        await group.submit("streams", tasks=6, kind=TaskKind.STREAMING, config=config)
        await group.balanced(*workers)
        seen: set[LearnerTask] = set()
        group.topics.subscribe(lambda: seen.update(learners(group.topics.status)))

        said = await cospark(group, "scale", name, "--to", "60%", "--wait", "--timeout", str(DEADLINE_S))
        assert said.status == 0, said
        assert f"\n{LEARNS}\n" in said.out
        gone = asked(said.out)
        assert f"; {gone} (stable, leaves soon): 2 tasks, " in said.out
        assert " (warming, 50 %)" in said.out
        assert await group.ended(gone) == [0]

        rest = sorted(set(workers) - {gone})
        await group.balanced(*rest)
        moved = {task: each for task, each in (await group.starts()).items() if len(each) > 1}
        assert {start.worker for each in moved.values() for start in each[:1]} == {gone}
        stood_still = [each[1].from_ms - (each[0].until_ms or 0) for each in moved.values()]
        assert len(stood_still) == 2
        assert max(stood_still) < warm_up_ms, "they were warm"
        assert not overlaps(await group.steps())
        warming = {one for one in seen if not one.ready and one.learned}  # without an owner while it moves
        assert {(one.task, one.learned) for one in warming} == {(task, gone) for task in moved}
        assert {one.learner for one in seen} <= set(rest), "a leaving worker learns nothing"
        await eventually(lambda: "and leaves when others have learned and taken over the rest" in group.log_of(gone))
        learned = [line for worker in rest for line in group.log_of(worker).splitlines() if f" of {gone}: " in line]
        assert any(f"{gone} is leaving" in line for line in learned), "the round says who learns it, and why"
