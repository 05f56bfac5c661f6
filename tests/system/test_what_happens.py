"""The lines of docs/what-happens.md that no other system test covers."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from airflow_group import Group
from fleet import Fleet, Start, starts
from tcp_proxy import TcpProxy
from waiting import slow_ms

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.state.records import ControlAction, TaskKind, TaskState
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import TaskId, Tasks, WorkerId

pytestmark = pytest.mark.side_by_side

W1, W2 = WorkerId("two_workers.w1"), WorkerId("two_workers.w2")
LATE, BRIEF = WorkerId("third_worker.w3"), WorkerId("brief_session.w3")
STAYS = WorkerId("a.outside")

BRIEF_RETRY_MS = int(slow_ms(10_000))
MARGIN_MS = 60_000


def begun(group: Group) -> dict[TaskId, list[Start]]:
    return starts(group.steps())


def runs_on(group: Group, tasks: int, *workers: str) -> GroupRecord:
    """Wait until these workers run so many tasks, exactly those that they own."""
    record = group.settled(tasks, *workers).status.group
    assert record is not None
    return record


def real(tasks: Tasks) -> Tasks:
    return frozenset(task for task in tasks if not task.is_planner)


@pytest.mark.shows(
    "a worker joins",
    "a worker can't reach Kafka",
    "it comes back later, while its tasks still wait for it",
    "it is killed for good",
)
def test_a_worker_joins_is_cut_off_is_killed_and_is_killed_for_good(group: Group, way: TcpProxy) -> None:
    """No other task is stopped, except those that it is given when it first joins."""
    # First the job: a worker that has nothing to do would be deferred, and come back.
    group.submit("endless", tasks=6, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    run = group.start("two_workers")
    runs_on(group, 6, W1, W2)
    at_first = begun(group)
    last_run = group.start("brief_session", connection="distant")
    joined = runs_on(group, 6, W1, W2, BRIEF)
    own = real(joined.owned_by(BRIEF))
    assert len(own) == 2
    others = {task: each for task, each in begun(group).items() if task not in own}
    assert others == {task: each for task, each in at_first.items() if task not in own}, (
        "only the tasks for the new worker were stopped"
    )
    assert way.connections

    way.stall()
    cut = group.wait_for_members(W1, W2)
    way.heal()
    healed = runs_on(group, 6, W1, W2, BRIEF)
    assert real(healed.owned_by(BRIEF)) == own
    for task in own:
        *_, before, after = begun(group)[task]
        assert (before.worker, after.worker) == (BRIEF, BRIEF)
        assert before.until_ms is not None
        assert before.until_ms <= cut.at_ms, "stopped before another worker could be given it"

    worker = group.api.task_instance("brief_session", last_run, "w3")
    assert worker.try_number == 1
    group.api.pause("brief_session")  # so that it is not back before it is missed
    os.kill(group.api.running_pid(worker), 9)
    killed = group.wait_for_members(W1, W2)
    group.api.unpause("brief_session")
    assert own <= killed.waiting
    assert MARGIN_MS < killed.delay_ms <= BRIEF_RETRY_MS + MARGIN_MS
    back = runs_on(group, 6, W1, W2, BRIEF)
    assert real(back.owned_by(BRIEF)) == own
    of_its_return = next(seen for seen in group.rounds() if seen.epoch > killed.epoch and BRIEF in seen.members)
    assert of_its_return.owned_by(BRIEF) >= own

    worker = group.api.task_instance("brief_session", last_run, "w3")
    assert worker.try_number == 2, "its last try"
    os.kill(group.api.running_pid(worker), 9)
    lost = runs_on(group, 6, W1, W2)
    assert (lost.delay_ms, lost.waiting) == (0, frozenset())
    assert {task: each for task, each in begun(group).items() if task in others} == others
    assert {group.api.task_instance("two_workers", run, name).try_number for name in ("w1", "w2")} == {1}


@pytest.mark.shows("it leaves in an orderly way: its task is marked failed or success, it is drained or stopped")
def test_nobody_waits_for_a_worker_that_leaves_in_order(group: Group, outside: Callable[..., Fleet]) -> None:
    """Three workers at once: one marked success, one drained, one stopped."""
    others = outside(group, "--slots", "1")
    others.start(STAYS)
    run = group.start("two_workers", slots=1)
    group.start("third_worker", slots=1)
    group.wait_for_members(STAYS, W1, W2, LATE)
    group.submit("naps", tasks=16, entry_point="jobs:Nap", kind=TaskKind.BATCH, seconds=6)
    before = runs_on(group, 4, STAYS, W1, W2, LATE)

    group.ask(W2, ControlAction.DRAIN)
    group.ask(LATE, ControlAction.STOP)
    group.api.set_state(group.api.task_instance("two_workers", run, "w1"), "success")

    seen = group.wait_for(
        lambda seen: seen.status.group is not None and set(seen.status.group.members) == {STAYS},
        "all but one have left",
    ).status
    assert seen.group is not None
    assert seen.workers[W1].left is LeaveReason.KILLED
    assert seen.workers[W2].left is LeaveReason.DRAINED
    assert seen.workers[LATE].left is LeaveReason.STOPPED
    after = [record for record in group.rounds() if record.epoch > before.epoch]
    assert {record.delay_ms for record in after} == {0}
    ended = {status.task for status in group.steps() if status.state is TaskState.FINISHED}
    assert {task.index for task in real(seen.group.owned_by(STAYS)) | ended if not task.is_planner} == set(range(16))
    stopped = {status.worker for status in group.steps() if status.state is TaskState.STOPPED and status.started_at_ms}
    assert stopped <= {W1, LATE}, "the drained worker's tasks finished"


@pytest.mark.shows("a worker has a free slot while tasks wait elsewhere")
def test_a_free_slot_gets_a_task_that_waits_elsewhere(group: Group) -> None:
    group.start("two_workers", slots=1)
    group.wait_for_members(W1, W2)
    group.submit_planned("uneven", [{"seconds": 0.05 if index % 2 else 600} for index in range(6)])
    group.wait_for(
        lambda seen: (
            {
                status.worker
                for task, status in seen.status.tasks.items()
                if status.state is TaskState.RUNNING and not task.index % 2 and not task.is_planner
            }
            == {W1, W2}
        ),
        "each worker runs a long task",
    )
    reasons = [record.reason for record in group.rounds()]
    assert any("a slot free" in reason for reason in reasons), reasons
