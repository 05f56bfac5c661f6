"""Worker processes on a real broker: which tasks are stopped when the group changes, and which are not."""

from __future__ import annotations

import asyncio
import signal
from functools import partial

import pytest
from fleet import SHORT_SESSION, MakeFleet
from waiting import eventually, slow_ms

from airflow_provider.cli.shared import signals
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind, TaskState, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.values.model import TaskId, WorkerId


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and enough slots."""
    return partial(fleet, "--runner", "noop", "--slots", "20")


async def test_a_third_worker_stops_only_the_tasks_that_it_receives(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await group.submit("forever", tasks=9, kind=TaskKind.STREAMING)
        group.start("w1")
        group.start("w2")
        await group.balanced("w1", "w2")
        stopped_before = await group.stops()

        group.start("w3")
        await group.balanced("w1", "w2", "w3")

        assert len(group.owned("w3")) == 3
        stopped = [task for task, _worker in await group.stops() - stopped_before]
        assert sorted(stopped) == sorted(group.owned("w3")), f"each is stopped once\n{group.story()}"


def _next_attempts_run(before: dict[TaskId, int], _jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    return all(
        status.tasks[task].attempt == attempt + 1 and status.tasks[task].state is TaskState.RUNNING
        for task, attempt in before.items()
    )


async def test_a_killed_worker_that_is_back_within_its_session_goes_on_without_a_rebalance(fleet: MakeFleet) -> None:
    """Also the leader, and also when the last round gave it nothing new."""
    async with fleet() as group:
        await group.submit("forever", tasks=4, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        group.start("w2")
        await group.balanced("w1", "w2")
        assert group.record.leader == "w1"
        await group.rested()
        for worker in ("w1", "w2"):
            before, stops = group.record, await group.stops()
            attempts = {task: group.topics.status.tasks[task].attempt for task in group.owned(worker)}

            group.kill(worker)
            group.start(worker)

            await group.wait_for(partial(_next_attempts_run, attempts), f"{worker} runs its tasks again")
            assert group.record == before, "no rebalance, so all assignments are the same"
            assert await group.stops() == stops


async def test_a_worker_that_returns_within_the_delay_gets_its_own_tasks_again(fleet: MakeFleet) -> None:
    async with fleet("--max-delay-ms", slow_ms(60_000)) as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")
        group.start("w3", *SHORT_SESSION)
        await group.balanced("w1", "w2", "w3")
        own, stops = group.owned("w3"), await group.stops()

        group.kill("w3")
        await group.wait_for(
            lambda _jobs, status: status.group is not None and "w3" not in status.group.members, "w3's session is over"
        )
        assert group.record.delay_ms > 0, "the tasks of w3 wait for it"
        deadline_ms = group.record.deadline_ms
        group.start("w3", *SHORT_SESSION)
        await group.balanced("w1", "w2", "w3")

        assert group.owned("w3") == own
        assert group.record.at_ms < deadline_ms, "it has its own tasks again in the round of its return"
        assert {stop for stop in await group.stops() - stops if stop[1] != "w3"} == set(), "no other tasks were stopped"


async def test_a_worker_killed_for_good_loses_its_tasks_after_the_delay(fleet: MakeFleet) -> None:
    async with fleet("--max-delay-ms", "3000") as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        group.start("w1")
        group.start("w2", *SHORT_SESSION)
        await group.balanced("w1", "w2")
        kept, lost, stops = group.owned("w1"), group.owned("w2"), await group.stops()

        group.kill("w2")
        await group.balanced("w1")

        assert group.owned("w1") == kept | lost
        assert await group.stops() == stops
        waited = [each for each in await group.rounds() if each.record.delay_ms]
        assert waited, "there was a delay"
        assert group.record.at_ms >= waited[0].deadline_ms


@pytest.mark.parametrize("way", ["killed", "told to stop"])
async def test_a_worker_that_nobody_starts_again_is_not_waited_for(fleet: MakeFleet, way: str) -> None:
    async with fleet("--max-delay-ms", "300000", "--returns-ms", "0") as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        group.start("w1")
        group.start("w2", *SHORT_SESSION)
        await group.balanced("w1", "w2")
        kept, lost, stops = group.owned("w1"), group.owned("w2"), await group.stops()

        if way == "killed":
            group.kill("w2")
        else:
            group.send("w2", signal.SIGTERM)
            assert await group.ended("w2") == [0]
            assert "left" in group.log_of("w2")
        await group.balanced("w1")

        assert group.owned("w1") == kept | lost
        assert {stop for stop in await group.stops() - stops if stop[1] != "w2"} == set()
        assert not [each for each in await group.rounds() if each.record.delay_ms]


async def test_a_paused_worker_finds_its_lease_over_and_joins_anew(fleet: MakeFleet) -> None:
    async with fleet(*SHORT_SESSION, "--max-delay-ms", "0") as group:
        await group.submit("forever", tasks=4, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")

        group.send("w2", signal.SIGSTOP)
        await group.balanced("w1")
        group.send("w2", signal.SIGCONT)
        await group.balanced("w1", "w2")

        running = [group.topics.status.tasks[task].worker for task in group.owned("w1")]
        assert set(running) == {"w1"}, "the statuses that w2 wrote when it woke did not win"


async def test_the_group_is_done_when_its_jobs_are_and_a_new_run_key_runs_them_again(fleet: MakeFleet) -> None:
    async with fleet("--until", "drained") as group:
        await group.submit("batch", tasks=5, seconds=0.2)
        for worker in ("w1", "w2"):
            group.start(worker)
        assert [group.wait_for_end(worker) for worker in ("w1", "w2")] == [0, 0]
        epoch = group.epoch

        await group.submit("batch", tasks=5, seconds=0.2)
        await group.topics.catch_up()
        progress = job_progress("batch", group.topics.jobs, group.topics.status)
        assert progress is not None
        assert progress.complete, "the same again changes nothing"

        await group.submit("batch", tasks=5, seconds=0.2, run_key="second")
        group.start("w3")
        assert group.wait_for_end("w3") == 0
        await group.topics.catch_up()
        assert {status.run_key for status in group.topics.status.tasks.values()} == {"second"}
        assert group.epoch > epoch, "the generation starts again, the epoch does not"


async def test_a_second_signal_ends_a_worker_that_waits_for_its_tasks_at_once(fleet: MakeFleet) -> None:
    async with fleet("--runner", "local", "--allow", "jobs_for_tests") as group:
        await group.submit("stubborn", tasks=1, entry_point="jobs_for_tests:stubborn")
        group.start("w1")
        await eventually(lambda: "plans for ever" in group.log_of("w1"), "it plans")
        group.send("w1", signal.SIGTERM)
        await group.wait_for(
            lambda _jobs, status: status.workers[WorkerId("w1")].state is WorkerPhase.STOPPING, "it wants to leave"
        )
        await asyncio.sleep(2 * signals._ONE_SIGNAL_S)
        assert group.runs("w1"), "it waits for its task"
        group.send("w1", signal.SIGTERM)
        assert group.wait_for_end("w1") == 128 + signal.SIGTERM
        assert "ends immediately, without leaving the group" in group.log_of("w1")


async def test_an_idle_worker_is_given_waiting_tasks_only_when_that_helps(
    fleet: MakeFleet,
) -> None:
    async with fleet("--slots", "1") as group:
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and set(status.group.members) == {"w1", "w2"},
            "both have joined",
        )
        job = JobDefinition(name="uneven", entry_point="noop:job", max_tasks=6, run_key="first")
        configs = [{"seconds": seconds} for seconds in (2, 0.05, 4, 0.05, 4, 0.05)]
        await group.topics.publish_plan(PlanRecord.of(job, configs, planned_by=WorkerId("w1"), at_ms=0))
        await group.topics.submit(job)
        await group.wait_for(
            lambda jobs, status: (p := job_progress("uneven", jobs, status)) is not None and p.complete,
            "the job is complete",
        )
        rounds = [each.record for each in await group.rounds()]
        helped = [record.epoch for record in rounds if "a slot free" in record.reason and not record.step]
        assert len(helped) == 1, f"not again after nothing waited any more\n{group.story()}"
        steps = await group.steps()
        assert not [step for step in steps if step.state is TaskState.STOPPED and step.started_at_ms]
        slow = [told for task, told in group.topics.status.tasks.items() if task.index in (0, 2, 4)]
        assert {told.worker for told in slow} == {"w1", "w2"}, group.story()
