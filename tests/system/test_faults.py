"""Parts of a real Airflow die, stall or are away while a worker is at work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow_group import Group
from fleet import Fleet, starts
from waiting import wait_until

from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.reports.groups.worker_words import worker_in_words
from airflow_provider.values.model import WorkerId
from demo.airflow import LocalAirflow
from demo.airflow_api import TaskInstance

HELD, OUTSIDE, LATE = WorkerId("held.w1"), WorkerId("a.outside"), WorkerId("late.outside")
SHORTLY = WorkerId("held_shortly.w1")


def attempts(group: Group, job: str) -> list[int]:
    seen = group.read()
    assert seen is not None
    return [status.attempt for task, status in seen.status.tasks.items() if task.job == job and not task.is_planner]


def now(group: Group, worker: TaskInstance) -> TaskInstance:
    return group.api.task_instance(worker.dag_id, worker.run_id, worker.task_id)


def epochs_only_grow(group: Group) -> None:
    epochs = [record.epoch for record in group.rounds()]
    assert epochs == sorted(set(epochs))


def elsewhere(group: Group, worker: TaskInstance) -> None:
    """Wait until another triggerer has the worker's trigger."""
    group.api.wait_for_task(
        *(worker.dag_id, worker.run_id, worker.task_id),
        states=("deferred",),
        where=lambda seen: seen.triggerer_job not in (None, worker.triggerer_job),
    )


@pytest.mark.shows("the triggerer dies")
def test_a_deferred_worker_keeps_its_membership_through_rebalances_and_triggerers(group: Group) -> None:
    """It needs no worker slot, stays the same member, leads from the triggerer, and finally gets its tasks."""
    run = group.start("two_workers")
    workers = [group.deferred("two_workers", run, f"w{number}") for number in (1, 2)]
    before = group.wait_for_members("two_workers.w1", "two_workers.w2")

    late = group.start("third_worker")
    group.deferred("third_worker", late, "w3")
    joined = group.wait_for_members("two_workers.w1", "two_workers.w2", "third_worker.w3")
    assert joined.epoch > before.epoch
    assert before.members.items() <= joined.members.items(), "the same member ids"
    assert joined.leader == before.leader, "it assigned from the triggerer"
    for worker in workers:
        now = group.api.task_instance(worker.dag_id, worker.run_id, worker.task_id)
        assert (now.state, now.id) == ("deferred", worker.id)

    group.airflow.kill_triggerer()
    group.airflow.start_triggerer()
    old_jobs = {worker.triggerer_job for worker in workers}
    for worker in workers:
        group.api.wait_for_task(
            *(worker.dag_id, worker.run_id, worker.task_id),
            states=("deferred",),
            where=lambda seen: seen.triggerer_job is not None and seen.triggerer_job not in old_jobs,
        )

    submitted = group.start("endless_job")
    seen = group.wait_for_running("endless", 4)
    after = seen.status.group
    assert after is not None
    group.api.wait_for_run("endless_job", submitted)
    assert set(after.members) == {"two_workers.w1", "two_workers.w2", "third_worker.w3"}
    assert {len(record.members) for record in group.rounds() if record.epoch >= joined.epoch} == {3}, (
        "no member was missing"
    )
    assert all(status.attempt == 1 for task, status in seen.status.tasks.items()), "no task was missing"


@pytest.mark.thorough
def test_a_leader_that_dies_with_its_triggerer_in_the_middle_of_a_round(
    groups: Callable[[], Group], outside: Callable[..., Fleet], airflow: LocalAirflow
) -> None:
    """All have joined and wait for its assignment; it comes back under its name, and assigns."""
    group = groups()
    run = group.start("held")
    leader = group.deferred("held", run, "w1")
    group.wait_for_members(HELD)
    others = outside(group)
    others.start(OUTSIDE)
    group.wait_for_members(HELD, OUTSIDE)
    group.submit("first", tasks=1, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    before = group.wait_for_running("first", 1).status
    assert before.group is not None
    assert (before.group.leader, before.group.owned_by(HELD)) == (HELD, frozenset())
    assert now(group, leader).state == "deferred"
    wait_for_state(group, "Stable", "its last round is over")

    others.pause(OUTSIDE)  # so that only the leader can begin a round, which then waits for ``a.outside``
    group.submit("second", tasks=5, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    wait_for_state(group, "PreparingRebalance", "the leader has joined")
    others.start(LATE)
    wait_until(lambda: LATE in named(group), what=lambda: f"{LATE} has not joined: {group.described()}")
    (triggerer,) = (name for name in airflow.processes if name.startswith("triggerer"))
    airflow.kill_triggerer(triggerer)
    others.wake(OUTSIDE)
    wait_for_state(group, "CompletingRebalance", "all wait for the leader")
    airflow.start_triggerer()

    seen = group.wait_for_running("second", 5)
    after = seen.status.group
    assert after is not None
    assert set(after.members) == {HELD, OUTSIDE, LATE}
    assert after.members[OUTSIDE] == before.group.members[OUTSIDE]
    assert after.members[HELD] != before.group.members[HELD], "the old member id is fenced"
    assert sorted(len(after.owned_by(worker)) for worker in after.members) == [2, 2, 2]
    assert attempts(group, "first") == [1], "it was not stopped"
    assert attempts(group, "second") == [1] * 5
    epochs_only_grow(group)
    assert now(group, leader).try_number == 1


def named(group: Group) -> set[str | None]:
    """The names of the members, as the coordinator knows them."""
    return {member.group_instance_id for member in group.described().members}


def wait_for_state(group: Group, state: str, what: str) -> None:
    """Wait until the coordinator says that the group is in this state, which shows ``what``."""
    wait_until(lambda: group.described().state == state, what=lambda: f"not so: {what}: {group.described()}")


def test_triggers_fire_while_the_scheduler_is_away_for_longer_than_a_session(
    groups: Callable[[], Group], outside: Callable[..., Fleet], airflow: LocalAirflow
) -> None:
    """Nobody sends heartbeats meanwhile. One membership outlasts it and goes on; the other one is lost: others do its
    work, and it joins anew.
    """
    lasting, short = groups(), groups()
    others = outside(short, "--max-delay-ms", "0")
    others.start(OUTSIDE)
    short.wait_for_members(OUTSIDE)
    runs = (lasting.start("held"), short.start("held_shortly"))
    workers = [lasting.deferred("held", runs[0], "w1"), short.deferred("held_shortly", runs[1], "w1")]
    before = lasting.wait_for_members(HELD), short.wait_for_members(OUTSIDE, SHORTLY)
    airflow.kill_scheduler()
    for group in (lasting, short):
        group.submit("naps", tasks=4, entry_point="jobs:Nap", kind=TaskKind.BATCH, seconds=1)
    for group, worker in zip((lasting, short), workers, strict=True):
        group.api.wait_for_task(worker.dag_id, worker.run_id, worker.task_id, states=("scheduled",))
    wait_until(
        lambda: [member.group_instance_id for member in short.described().members] == [OUTSIDE],
        what=lambda: f"its session is not over: {short.described()}",
    )
    finished(short, "naps", 4)
    assert {member.group_instance_id for member in lasting.described().members} == {HELD}
    airflow.start_scheduler()

    for group, worker, was in zip((lasting, short), workers, before, strict=True):
        finished(group, "naps", 4)
        record = group.wait_for_members(*was.members)
        group.deferred(worker.dag_id, worker.run_id, worker.task_id)
        assert {task: len(each) for task, each in starts(group.steps()).items()}.keys(), "some tasks ran"
        assert all(len(each) == 1 for each in starts(group.steps()).values()), "each ran exactly once"
        assert now(group, worker).try_number == 1
        assert record.epoch >= was.epoch
    assert lasting.record.members == before[0].members, "the same member"
    assert short.record.members[SHORTLY] != before[1].members[SHORTLY], "a new member"


@pytest.mark.thorough
def test_a_worker_that_gets_work_while_its_dag_is_paused(
    groups: Callable[[], Group], outside: Callable[..., Fleet]
) -> None:
    """Airflow does not start it. Soon after its session its tasks run elsewhere; unpaused, it gets its share again."""
    group = groups()
    others = outside(group, "--max-delay-ms", "3600000")  # longer than any test
    others.start(OUTSIDE)
    group.wait_for_members(OUTSIDE)
    worker = group.deferred("held_shortly", group.start("held_shortly"), "w1")
    before = group.wait_for_members(OUTSIDE, SHORTLY)
    group.api.pause("held_shortly")
    group.submit("endless", tasks=4, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    waiting = f"deferred, {Awaited.PROCESS.in_words} (since "
    group.wait_for(lambda seen: (worker_in_words(SHORTLY, seen.status) or "").startswith(waiting), waiting)
    group.api.wait_for_task(worker.dag_id, worker.run_id, worker.task_id, states=("scheduled",))
    given = group.wait_for_running("endless", 4)
    assert given.status.group is not None
    assert set(given.status.group.members) == {OUTSIDE}
    assert max(record.delay_ms for record in group.rounds()) <= 10_000, "they waited"
    assert now(group, worker).state == "scheduled"
    group.api.unpause("held_shortly")

    shared = group.wait_for(
        lambda seen: (
            seen.status.group is not None
            and [len(seen.status.group.owned_by(name)) for name in (OUTSIDE, SHORTLY)] == [2, 2]
        ),
        "it has its share",
    ).status.group
    assert shared is not None
    assert shared.members[SHORTLY] != before.members[SHORTLY], "a new member, under its name"
    group.wait_for_running("endless", 4)
    assert now(group, worker).try_number == 1


def finished(group: Group, job: str, tasks: int) -> None:
    group.wait_for(
        lambda seen: (
            sum(
                status.state is TaskState.FINISHED and task.job == job and not task.is_planner
                for task, status in seen.status.tasks.items()
            )
            == tasks
        ),
        f"{tasks} tasks of {job} are finished",
    )


@pytest.mark.thorough
def test_a_triggerer_that_wakes_when_another_has_its_triggers(
    groups: Callable[[], Group], airflow: LocalAirflow
) -> None:
    """By then one worker runs tasks and the other is deferred. The old triggers must not join, leave or fire, although
    Airflow ends them as if a user had.
    """
    busy, idle = groups(), groups()
    workers = {group: group.deferred("held", group.start("held"), "w1") for group in (busy, idle)}
    before = {group: group.wait_for_members(HELD) for group in workers}
    (stalled,) = (name for name in airflow.processes if name.startswith("triggerer"))
    try:
        with airflow.paused(stalled):
            airflow.start_triggerer()
            for group, worker in workers.items():
                elsewhere(group, worker)
            busy.submit("endless", tasks=3, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
            working = busy.wait_for_running("endless", 3).status.group
        for group, worker in workers.items():
            wait_until(
                lambda: "continues elsewhere" in group.api.log(worker),  # noqa: B023
                what=lambda: group.api.log(worker),  # noqa: B023
            )
    finally:
        airflow.kill_triggerer(stalled)
    assert busy.record == working, "no member has joined again"
    assert idle.record == before[idle]
    assert now(busy, workers[busy]).state == "running"
    assert now(idle, workers[idle]).state == "deferred"
    assert busy.api.log(workers[busy]).count("continues in this process") == 1

    busy.submit("more", tasks=2, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    idle.submit("more", tasks=2, entry_point="jobs:Endless", kind=TaskKind.STREAMING)
    for group, worker in workers.items():
        group.wait_for_running("more", 2)
        assert all(len(each) == 1 for each in starts(group.steps()).values()), "no task was started twice"
        assert now(group, worker).try_number == 1
        assert set(group.record.members) == {HELD}
        epochs_only_grow(group)


@pytest.mark.thorough
def test_a_deploy_of_scheduler_and_triggerer_at_once(groups: Callable[[], Group], airflow: LocalAirflow) -> None:
    group = groups()
    run = group.start("held")
    worker = group.deferred("held", run, "w1")
    before = group.wait_for_members(HELD)
    airflow.stop_triggerer()
    airflow.stop_scheduler()
    airflow.start_scheduler()
    airflow.start_triggerer()
    elsewhere(group, worker)
    group.submit("naps", tasks=2, entry_point="jobs:Nap", kind=TaskKind.BATCH, seconds=1)
    finished(group, "naps", 2)
    assert set(group.record.members) == {HELD}
    assert group.record.epoch > before.epoch
    assert attempts(group, "naps") == [1, 1]
    assert now(group, worker).try_number == 1
