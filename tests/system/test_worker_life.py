"""A worker's life in a healthy Airflow: it is deferred, killed, cleared or ended by a user."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from airflow_group import Group
from fleet import Fleet
from waiting import wait_until

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.cli.main import main
from airflow_provider.integration.one_shot import GroupSnapshot
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import TaskId, WorkerId

pytestmark = pytest.mark.side_by_side


@pytest.mark.shows("a worker's process dies and comes back within `session_timeout` (60 s)")
def test_a_killed_worker_returns_as_the_same_member_and_no_other_tasks_are_stopped(group: Group) -> None:
    group.start("endless_job")
    run = group.start("two_workers")
    before = group.settled(4, "two_workers.w1", "two_workers.w2").status
    assert before.group is not None
    own = before.group.owned_by(WorkerId("two_workers.w1"))
    assert len(own) == 2
    attempts = {task: before.tasks[task].attempt for task in own}

    instance = group.api.task_instance("two_workers", run, "w1")
    os.kill(group.api.running_pid(instance), 9)
    after = group.wait_for(
        lambda seen: all(
            seen.status.tasks[task].attempt == attempt + 1 and seen.status.tasks[task].state is TaskState.RUNNING
            for task, attempt in attempts.items()
        ),
        "w1 runs its own tasks again",
    ).status
    assert after.group == before.group, "there was no rebalance"
    others = before.group.owned_by(WorkerId("two_workers.w2"))
    assert {task: after.tasks[task] for task in others} == {task: before.tasks[task] for task in others}
    assert group.api.task_instance("two_workers", run, "w1").try_number == 2


def test_the_deferred_workers_of_a_drained_group_end(group: Group) -> None:
    run = group.start("until_drained")
    # It waits for a first job: a group without jobs does not count as drained.
    seen = group.wait_for_members("until_drained.w1")
    group.deferred("until_drained", run, "w1")
    submitted = group.start("bounded_job")
    group.api.wait_for_run("bounded_job", submitted)
    group.api.wait_for_run("until_drained", run)
    summary = group.api.xcom(group.api.task_instance("until_drained", run, "w1"))
    assert summary["ended"] == "drained"
    assert summary["finished"] == [["naps", index] for index in range(4)]
    assert summary["first_epoch"] == seen.epoch
    assert summary["deferrals"] >= 1
    report = group.api.xcom(group.api.task_instance("bounded_job", submitted, "submit"))
    assert (report["state"], report["changed"], report["run_key"]) == ("finished", True, submitted)


@pytest.mark.shows("it leaves in an orderly way: its task is marked failed or success, it is drained or stopped")
@pytest.mark.parametrize("deferred", [True, False], ids=["deferred", "running"])
def test_a_worker_that_a_user_ends_leaves_at_once(group: Group, deferred: bool) -> None:
    if not deferred:
        group.start("endless_job")
    run = group.start("two_workers")
    if deferred:
        for number in (1, 2):
            group.deferred("two_workers", run, f"w{number}")
    else:
        group.wait_for_members("two_workers.w1", "two_workers.w2")
        group.wait_for_running("endless", 4)
    group.api.set_state(group.api.task_instance("two_workers", run, "w1"), "failed")
    after = group.wait_for(
        lambda seen: seen.status.group is not None and set(seen.status.group.members) == {"two_workers.w2"},
        "w1 has left",
    ).status
    assert after.workers[WorkerId("two_workers.w1")].left is LeaveReason.KILLED, "it did not lose its session"
    record = after.group
    assert record is not None
    assert (record.delay_ms, record.waiting) == (0, frozenset()), "its tasks do not wait for it"
    if not deferred:
        assert sum(not task.is_planner for task in record.owned_by(WorkerId("two_workers.w2"))) == 4


@pytest.mark.shows("its task is cleared while it runs")
def test_a_cleared_running_worker_gets_its_own_tasks_back_in_the_round_of_its_return(group: Group) -> None:
    group.start("endless_job")
    run = group.start("two_workers")
    before = group.settled(4, "two_workers.w1", "two_workers.w2").status.group
    assert before is not None
    own = before.owned_by(WorkerId("two_workers.w1"))
    group.api.clear(group.api.task_instance("two_workers", run, "w1"))

    def left_and_came_back() -> tuple[GroupRecord, GroupRecord] | None:
        """The rounds without it and after that. A look at the present may see neither."""
        since = [seen for seen in group.rounds() if seen.epoch > before.epoch]
        away = [seen for seen in since if "two_workers.w1" not in seen.members]
        return (away[0], since[-1]) if away and len(since[-1].members) == 2 else None

    while_away, back = group.api.wait_until(left_and_came_back, what=lambda: "w1 is not back")
    assert set(while_away.members) == {"two_workers.w2"}
    assert while_away.reason.endswith("w1 left (restarting)")
    assert while_away.delay_ms > 0
    assert not any(own & tasks for tasks in while_away.assignment.values()), "its tasks wait for it"
    assert back.owned_by(WorkerId("two_workers.w1")) == own
    assert back.delay_ms == 0


def test_a_cleared_deferred_worker_goes_on_in_its_next_try(group: Group) -> None:
    """The new try takes the membership before the old trigger learns that it was killed; the old one must not leave."""
    run = group.start("two_workers")
    instances = [group.deferred("two_workers", run, f"w{number}") for number in (1, 2)]
    before = group.wait_for_members("two_workers.w1", "two_workers.w2")
    group.api.clear(instances[0])
    group.api.wait_for_task(
        *("two_workers", run, "w1"),
        states=("deferred",),
        where=lambda seen: seen.id != instances[0].id and seen.triggerer_job is not None,
    )
    wait_until(
        lambda: any(end in group.api.log(instances[0], 1) for end in ("continues elsewhere", "fenced at epoch")),
        what=lambda: f"the old trigger has not ended: {group.api.log(instances[0], 1)}",
    )
    group.start("endless_job")
    after = group.wait_for_running("endless", 4).status.group
    assert after is not None
    assert set(after.members) == set(before.members)


def test_a_second_run_cannot_take_the_worker_names_of_the_first(group: Group) -> None:
    first = group.start("two_workers")
    for number in (1, 2):
        group.deferred("two_workers", first, f"w{number}")
    before = group.wait_for_members("two_workers.w1", "two_workers.w2")
    second = group.start("two_workers")
    group.api.wait_for_run("two_workers", second, states=("failed",))
    refused = group.api.task_instance("two_workers", second, "w1")
    assert refused.try_number == 1, "a retry could not help"
    assert "is the name of a worker of group" in group.api.log(refused)
    assert group.record == before, "the first run was not disturbed"
    assert group.api.task_instance("two_workers", first, "w1").state == "deferred"


def wait_for_failure(group: Group, task: TaskId, *, attempt: int, failures: int) -> None:
    def failed(seen: GroupSnapshot) -> bool:
        said = seen.status.tasks.get(task)
        return said is not None and (said.state, said.attempt, said.failures) == (TaskState.FAILED, attempt, failures)

    group.wait_for(failed, f"attempt {attempt} of {task} has failed for good")


@pytest.mark.shows("a Spark task fails")
def test_a_failing_spark_task_is_retried_and_then_shown_everywhere(group: Group, outside: Callable[..., Fleet]) -> None:
    run = group.start("failing_job")
    api = group.api
    api.wait_for_task("failing_job", run, "failed")
    sensor = api.wait_for_task("failing_job", run, "finished", states=("failed",))
    assert sensor.try_number == 1, "a retry of the sensor could not help"
    assert "failing:1: ZeroDivisionError" in api.log(sensor)

    worker = api.wait_for_task("failing_job", run, "worker")
    summary = api.xcom(worker)
    assert summary["finished"] == [["failing", 0], ["failing", 2]], "the others went on"
    assert list(summary["failed"]) == ["failing:1"]
    log = api.log(worker)
    assert log.count("Task failing:1 failed: ZeroDivisionError") == 2
    assert "it will be tried again" in log
    assert 'len(rows) // task.config["divide_by"]' in log, "the traceback"

    report = api.xcom(api.task_instance("failing_job", run, "failed"))
    assert report["state"] == "failed"
    assert "ZeroDivisionError" in report["errors"]["failing:1"]["message"]
    seen = group.read()
    assert seen is not None
    status = seen.status.tasks[TaskId("failing", 1)]
    assert (status.state, status.failures) == (TaskState.FAILED, 2)

    # A stream is the same job in all runs of its DAG.
    others = outside(group)
    others.start("a.outside")
    for attempt in (1, 2):
        run = group.start("failing_stream")
        # Each run starts with all retries, here none.
        wait_for_failure(group, TaskId("stream", 0), attempt=attempt, failures=1)
    submit = api.wait_for_task("failing_stream", run, "submit")
    assert "1 failed task of job stream is tried again: stream:0" in api.log(submit)
    assert not api.xcom(submit)["changed"]
    assert main(["jobs", "retry", group.name, "stream", "--bootstrap-servers", others.settings.bootstrap_servers]) == 0
    wait_for_failure(group, TaskId("stream", 0), attempt=3, failures=1)


@pytest.mark.shows("the worker's Spark ends: its JVM is killed, or runs out of memory")
def test_a_worker_whose_spark_ends_runs_its_tasks_in_another_one(group: Group) -> None:
    group.submit("endless", tasks=2, entry_point="cospark_system_jobs:Endless", kind=TaskKind.BATCH)
    run = group.start("spark_worker")
    group.wait_for_running("endless", 2)
    worker = group.api.task_instance("spark_worker", run, "worker")
    before = group.wait_for_spark(worker)
    before.kill()
    seen = group.wait_for(
        lambda seen: all(
            status.state is TaskState.RUNNING and status.spark_deaths == 1
            for task, status in seen.status.tasks.items()
            if not task.is_planner
        ),
        "they run again",
    )
    assert {status.failures for status in seen.status.tasks.values()} == {0}, "no retry is used up"
    assert group.wait_for_spark(worker).pid != before.pid
    after = group.api.task_instance("spark_worker", run, "worker")
    assert (after.state, after.try_number) == ("running", 1)


@pytest.mark.shows("its Spark does not start: no master, no Java")
def test_a_worker_whose_spark_does_not_start_leaves_its_tasks_to_others(
    group: Group, outside: Callable[..., Fleet]
) -> None:
    """Its return when Spark starts is tested in ``tests/unit/worker/test_worker_standing_back.py``."""
    others = outside(group)
    others.start("a.outside")
    run = group.start("spark_worker", master="yarn")  # without the Hadoop configuration that Spark needs
    group.wait_for_members("a.outside", "spark_worker.worker")
    group.submit("endless", tasks=2, entry_point="cospark_system_jobs:Endless", kind=TaskKind.BATCH)
    group.wait_for(
        lambda seen: (
            len(ours := [status for status in seen.status.tasks.values() if not status.task.is_planner]) == 2
            and {(status.state, status.worker, status.failures) for status in ours}
            == {(TaskState.RUNNING, "a.outside", 0)}
        ),
        "the other worker runs both tasks",
    )
    assert group.api.task_instance("spark_worker", run, "worker").try_number == 1
