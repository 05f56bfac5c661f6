"""Worker processes on a real broker, with version 3 of the embedded protocol: tasks are warm before they move."""

from __future__ import annotations

from functools import partial

import pytest
from fleet import SHORT_SESSION, MakeFleet, cospark
from waiting import SLOWNESS

from airflow_provider.state.records import TaskKind
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import NO_TASKS, WorkerId

WARM_UP = {"warm_up_seconds": 15.0 * SLOWNESS}
"""Much longer than it takes to look at the group while a worker learns."""


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and enough slots."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--connect-protocol", "extensible")


def learns(worker: str, number: int, _jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    said = status.workers.get(WorkerId(worker))
    return said is not None and len(said.learning) == number


async def test_a_worker_that_joins_learns_before_it_is_given_anything(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await group.submit("streams", tasks=4, kind=TaskKind.STREAMING, config=WARM_UP)
        group.start("w1")
        await group.balanced("w1")
        stopped_before = await group.stops()

        group.start("w2")
        await group.wait_for(partial(learns, "w2", 2), "w2 learns two tasks")
        assert group.owned("w1") == {task for task in group.topics.status.tasks if not task.is_planner}
        assert await group.stops() == stopped_before, "the owner still runs them"

        await group.balanced("w1", "w2")
        assert len(group.owned("w2")) == 2
        assert {task for task, _ in await group.stops() - stopped_before} == group.owned("w2")
        await group.wait_for(partial(learns, "w2", 0), "w2 has learned all")
        assert "is ready for" in "\n".join(event.record.reason for event in await group.rounds()), group.story()
        for record in group.records:
            # Mostly each is stopped before the round that moves it. Its owner may also hear of that round first.
            revoked = {task for tasks in record.revoked.values() for task in tasks if not task.is_planner}
            assert not revoked or "is ready for" in record.reason, group.story()


async def test_a_lost_owner_is_replaced_by_whoever_has_learned_its_tasks_without_the_delay(fleet: MakeFleet) -> None:
    """The other task waits for its worker."""
    async with fleet(*SHORT_SESSION, "--max-delay-ms", "600000") as group:
        await group.submit("streams", tasks=2, kind=TaskKind.STREAMING, config={"warm_up_seconds": 12.0})
        group.start("w1")
        await group.balanced("w1")
        group.start("w2")
        await group.wait_for(partial(learns, "w2", 1), "w2 learns a task")
        said = group.topics.status.workers[WorkerId("w2")]
        learned = frozenset(lesson.task for lesson in said.learning)
        # The next leader only knows of lessons that the last one has recorded.
        await group.wait_for(lambda _jobs, _status: group.epoch >= said.epoch, "the leader has recorded it")

        group.kill("w1")

        def moved(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            record = status.group
            return record is not None and learned <= record.assignment.get(WorkerId("w2"), NO_TASKS)

        await group.wait_for(moved, "w2 has what it has learned")
        assert group.record.deadline_ms > 0, "the other task waits for its worker"


async def test_a_warm_up_that_fails_gives_its_place_to_another(fleet: MakeFleet) -> None:
    """The task runs on where it is, and ``describe`` says why."""
    async with fleet("--max-learners", "1") as group:
        failing = {"warm_up_seconds": 0.2, "warm_up_fails": "no such table"}
        await group.submit("uneven", tasks=2, kind=TaskKind.STREAMING, config=failing)
        await group.submit("streams", tasks=1, kind=TaskKind.STREAMING, config={"warm_up_seconds": 0.2})
        group.start("w1")
        await group.balanced("w1")
        stopped_before = await group.stops()

        group.start("w2")
        await group.balanced("w1", "w2")
        assert {str(task) for task, _ in await group.stops() - stopped_before} == {"streams:0"}
        assert {str(task) for task in group.owned("w2")} == {"streams:0"}
        why = "w2 could not make ready uneven:0, which stays at w1: no such table"
        said = await cospark(group, "status", group.group_id, "--once")
        assert why in " ".join(said.out.split()), said
        assert why in (await cospark(group, "groups", "describe", group.group_id)).out
        assert "the warm-up of uneven:0 failed; it is not tried again here: no such table" in group.log_of("w2")
        reasons = [event.record.reason for event in await group.rounds()]
        assert "a learner could not make ready uneven:0" in reasons, reasons
