"""Jobs are paused, stopped, resumed and restarted, in worker processes on a real broker, with both group protocols."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import pytest
from fleet import Fleet, MakeFleet, Said, cospark, overlaps

from airflow_provider.state.records import ActionEvent, TaskEvent, TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, converged
from airflow_provider.values.model import TaskId
from demo.events import read_events

STREAMS = frozenset(TaskId("streams", index) for index in range(4))


@pytest.fixture(params=[pytest.param("classic", marks=pytest.mark.thorough), "connect"])
def fleet(fleet: MakeFleet, request: pytest.FixtureRequest) -> MakeFleet:
    """Workers with the noop runner and enough slots."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--group-protocol", request.param)


async def _something_goes_well_on_both(group: Fleet) -> None:
    """Otherwise what fails there for good gets one try more elsewhere."""
    await group.submit("well", tasks=8, seconds=0.1)

    def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        words = [status.tasks.get(TaskId("well", index)) for index in range(8)]
        done = {word.worker for word in words if word is not None and word.state is TaskState.FINISHED}
        return all(word is not None and word.state.final for word in words) and done == {"w1", "w2"}

    await group.wait_for(holds, "tasks have finished on both")


async def _two_workers(group: Fleet) -> None:
    await group.submit("streams", tasks=4, kind=TaskKind.STREAMING)
    group.start("w1")
    group.start("w2")
    await group.balanced("w1", "w2")


async def _does(group: Fleet, *arguments: str) -> str:
    said: Said = await cospark(group, "jobs", arguments[0], group.group_id, *arguments[1:])
    assert said.status == 0, said.err
    return said.out


def _epoch(group: Fleet) -> int:
    assert group.topics.status.group is not None
    return group.topics.status.group.epoch


def _attempts(group: Fleet, tasks: Collection[TaskId] = STREAMS) -> dict[TaskId, int]:
    return {task: group.topics.status.tasks[task].attempt for task in tasks}


async def _runs(group: Fleet, attempts: dict[TaskId, int]) -> None:
    def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        words = [status.tasks.get(task) for task in attempts]
        return all(word and word.state is TaskState.RUNNING and word.attempt == attempts[word.task] for word in words)

    await group.wait_for(holds, f"these attempts run: {attempts}")


async def _stands_still(group: Fleet, tasks: Collection[TaskId] = STREAMS) -> None:
    await group.wait_for(
        lambda _jobs, status: all(status.tasks[task].state is TaskState.STOPPED for task in tasks), "all has stopped"
    )


def _owners(group: Fleet, tasks: Collection[TaskId] = STREAMS) -> dict[TaskId, str]:
    return {task: group.topics.status.tasks[task].worker for task in tasks}


async def test_a_job_and_a_task_start_anew_without_a_rebalance_and_nothing_runs_twice(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        epoch, owners, before = _epoch(group), _owners(group), _attempts(group)

        assert "4 restarted" in await _does(group, "restart", "streams")
        await _runs(group, {task: attempt + 1 for task, attempt in before.items()})
        only = TaskId("streams", 2)
        await _does(group, "restart", "streams", "--task", "2")
        again = {task: attempt + 1 + (task == only) for task, attempt in before.items()}
        await _runs(group, again)

        assert (_epoch(group), _owners(group)) == (epoch, owners), "no rebalance, and nothing has moved"
        assert not overlaps(await group.steps())
        # The restart is still in the topic; a worker that joins later must not repeat it.
        group.kill("w1")
        group.start("w1")
        mine = {task for task, owner in owners.items() if owner == "w1"}
        await _runs(group, {task: attempt + (task in mine) for task, attempt in again.items()})


async def test_a_retry_starts_failed_tasks_again_and_stops_no_running_ones(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        await _something_goes_well_on_both(group)
        await group.submit("failing", tasks=2, config={"fail": "boom"})
        failing = [TaskId("failing", index) for index in range(2)]

        def failed(times: int, _jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            words = [status.tasks.get(task) for task in failing]
            return all(word and word.state is TaskState.FAILED and word.attempt == times for word in words)

        await group.wait_for(partial(failed, 1), "both have failed")
        running, stops = _attempts(group), await group.stops()
        assert "2 tried again: failing:0, failing:1" in await _does(group, "restart", "failing", "--only-failed")
        await group.wait_for(partial(failed, 2), "both were tried again")
        assert _attempts(group) == running
        assert await group.stops() == stops


@pytest.mark.parametrize("fleet", ["classic"], indirect=True)
async def test_failed_tasks_are_retried_where_they_failed_in_the_same_epoch(fleet: MakeFleet) -> None:
    """Also when the group has had other rounds since."""
    failing = [TaskId("failing", index) for index in range(6)]
    async with fleet() as group:
        await _two_workers(group)
        await _something_goes_well_on_both(group)
        await group.submit("failing", tasks=6, config={"fail": "boom"})

        async def have_failed(*times: int) -> None:
            def holds(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
                words = [status.tasks.get(task) for task in failing]
                return all(
                    word is not None and (word.state, word.attempt) == (TaskState.FAILED, attempt)
                    for word, attempt in zip(words, times, strict=True)
                )

            await group.wait_for(holds, f"they have failed so often: {times}")

        await have_failed(*[1] * 6)
        await group.balanced("w1", "w2")
        epoch, owners = _epoch(group), _owners(group, failing)
        running, stops = _attempts(group), await group.stops()
        assert set(owners.values()) == {"w1", "w2"}
        assert "6 tried again" in await _does(group, "restart", "failing", "--only-failed")
        await have_failed(*[2] * 6)
        assert "1 tried again" in await _does(group, "restart", "failing", "--task", "3")
        await have_failed(2, 2, 2, 3, 2, 2)
        assert (_epoch(group), _owners(group, failing)) == (epoch, owners)
        assert (_attempts(group), await group.stops()) == (running, stops)

        group.start("w3")
        await group.balanced("w1", "w2", "w3")
        epoch, running, stops = _epoch(group), _attempts(group), await group.stops()
        assert "6 tried again" in await _does(group, "restart", "failing")
        await have_failed(3, 3, 3, 4, 3, 3)
        assert (_epoch(group), _owners(group, failing)) == (epoch, owners)
        assert (_attempts(group), await group.stops()) == (running, stops)
        assert not overlaps(await group.steps())


async def test_a_paused_job_stays_where_it_is_and_goes_on_there_without_a_rebalance(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        epoch, owners, before = _epoch(group), _owners(group), _attempts(group)

        await _does(group, "pause", "streams")
        await _stands_still(group)
        assert "paused" in await _does(group, "list")
        await _does(group, "resume", "streams")
        await _runs(group, {task: attempt + 1 for task, attempt in before.items()})

        assert (_epoch(group), _owners(group)) == (epoch, owners), "no rebalance, and nothing has moved"
        assert not overlaps(await group.steps())


async def test_a_paused_job_moves_as_others_do_and_does_not_run_there(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        await _does(group, "pause", "streams")
        await _stands_still(group)
        starts = await group.starts()
        group.start("w3")

        def all_three(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            record = status.group
            return record is not None and len(record.members) == 3 and converged(record, status.workers)

        await group.wait_for(all_three, "the third one is in the group")
        assert await group.starts() == starts, "nothing was started"
        await _does(group, "resume", "streams")
        await group.balanced("w1", "w2", "w3")
        assert not overlaps(await group.steps())


async def test_a_stopped_job_leaves_the_assignment_and_comes_back_with_all_that_was_known(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        others = [TaskId("others", index) for index in range(2)]
        await group.submit("others", tasks=2, kind=TaskKind.STREAMING)
        await group.wait_for(lambda _jobs, status: all(task in status.tasks for task in others), "others run, too")
        await group.balanced("w1", "w2")
        running = _attempts(group, others)

        await _does(group, "stop", "streams")
        await _stands_still(group)
        assert configured(group.topics.jobs, group.topics.status.tasks) == frozenset(others)
        assert "stopped" in await _does(group, "list")
        await _does(group, "resume", "streams")
        await group.balanced("w1", "w2")

        assert _attempts(group, others) == running, "other running tasks were left alone"
        assert not overlaps(await group.steps())
        events = read_events(group.settings, group.group_id)
        assert [event.action for event in events if isinstance(event, ActionEvent)] == [
            "submit",
            "submit",
            "stop",
            "resume",
        ]
        assert any(isinstance(event, TaskEvent) for event in events)


async def test_an_altered_job_gets_more_tasks_and_those_that_stay_the_same_go_on(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await _two_workers(group)
        running, stops = _attempts(group), await group.stops()

        assert "altered" in await _does(group, "alter", "streams", "--max-tasks", "6")
        more = [TaskId("streams", index) for index in (4, 5)]
        await group.wait_for(
            lambda _jobs, status: all(
                (word := status.tasks.get(task)) is not None and word.state is TaskState.RUNNING for task in more
            ),
            "the new tasks run",
        )
        assert _attempts(group) == running
        assert await group.stops() == stops

        before = {task: group.topics.jobs.planned_work(task) for task in STREAMS}
        await _does(group, "alter", "streams", "--config", '{"other": 1}')

        def as_altered(jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            works = [jobs.planned_work(task) for task in STREAMS]
            return all(
                work is not None
                and work.config == {"other": 1}
                and status.tasks[work.task].state is TaskState.RUNNING
                and status.tasks[work.task].fingerprint == work.fingerprint
                for work in works
            )

        await group.wait_for(as_altered, f"each has another config than in {before}, and runs by it")
        assert not overlaps(await group.steps())
