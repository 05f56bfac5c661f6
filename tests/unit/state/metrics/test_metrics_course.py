"""What is counted of rounds and of steps of tasks, once, and by one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record, group_snapshot, worker_status

from airflow_provider.assignment.model import Move, MoveReason
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.declared import Metric
from airflow_provider.state.metrics.event_counts import Course
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.metrics.spokesman import spokesman
from airflow_provider.state.records import TaskFailure, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
T0, T1 = TaskId("job", 0), TaskId("job", 1)
Told = dict[tuple[Metric, tuple[str, ...]], float]


def said(task: TaskId = T0, state: TaskState = TaskState.RUNNING, **others: Any) -> TaskStatus:
    return TaskStatus(**{"task": task, "state": state, "epoch": Epoch(1), "worker": W1, "run_key": "r1", **others})


def tasks(*statuses: TaskStatus, group: StatusSnapshot | None = None) -> StatusSnapshot:
    return replace(group or StatusSnapshot(), tasks={status.task: status for status in statuses})


def told(samples: list[Sample]) -> Told:
    return {(sample.metric, sample.tags[1:]): sample.value for sample in samples}


def follow(*course: StatusSnapshot, held: tuple[WorkerId, ...] = (W1,), now_ms: int = 9_000) -> list[Told]:
    """What is told of each snapshot after the first."""
    looked, each = Course.beginning(course[0], Epoch(0)), []
    for status in course[1:]:
        looked, samples = looked.until(status, "g", held, now_ms)
        each.append(told(samples))
    return each


START: dict[str, Any] = {"started_at_ms": 100, "attempt": 1}
OF_JOB = ("job",)


def test_a_task_begins_and_finishes() -> None:
    finished = said(state=TaskState.FINISHED, finished_at_ms=350, **START)
    assert follow(tasks(), tasks(said(**START)), tasks(finished), tasks(finished)) == [
        {(declared.STARTED, OF_JOB): 1},
        {(declared.FINISHED, OF_JOB): 1, (declared.TASK_TIME, OF_JOB): 250},
        {},
    ]


def test_what_begins_and_ends_between_two_looks_is_counted_as_well() -> None:
    (both,) = follow(tasks(), tasks(said(state=TaskState.FINISHED, finished_at_ms=350, **START)))
    assert both[declared.STARTED, OF_JOB] == both[declared.FINISHED, OF_JOB] == 1


def test_a_planners_time_is_told_apart() -> None:
    (planned,) = follow(tasks(), tasks(said(planner_of("job"), TaskState.FINISHED, finished_at_ms=350, **START)))
    assert planned[declared.PLANNER_TIME, OF_JOB] == 250
    assert (declared.TASK_TIME, OF_JOB) not in planned


def test_a_failed_attempt_is_tried_again_until_it_fails_for_good() -> None:
    error = TaskFailure(message="no luck")
    again = said(state=TaskState.PENDING, attempt=2, failures=1, error=error)
    second = said(attempt=2, started_at_ms=200, failures=1, error=error)
    failed = replaced(second, state=TaskState.FAILED, failures=2, finished_at_ms=300)
    assert follow(tasks(said(**START)), tasks(again), tasks(second), tasks(failed)) == [
        {(declared.ATTEMPTS_FAILED, OF_JOB): 1, (declared.RETRIED, OF_JOB): 1},
        {(declared.STARTED, OF_JOB): 1},
        {(declared.ATTEMPTS_FAILED, OF_JOB): 1, (declared.FAILED, OF_JOB): 1},
    ]


def test_what_is_tried_again_after_it_has_failed_for_good_counts_anew() -> None:
    failed = said(state=TaskState.FAILED, failures=2, attempt=2, started_at_ms=1)
    anew = said(state=TaskState.UNASSIGNED, failures=0, attempt=1)
    assert follow(tasks(failed), tasks(anew)) == [{}]


def test_another_run_of_the_job_begins_at_zero() -> None:
    before = said(state=TaskState.FINISHED, attempt=5, failures=4, finished_at_ms=350, started_at_ms=100)
    assert follow(tasks(before), tasks(said(run_key="r2", **START))) == [{(declared.STARTED, OF_JOB): 1}]


def test_a_task_that_moves_stands_still_from_its_stop_to_its_next_start() -> None:
    stopped = said(state=TaskState.STOPPED, finished_at_ms=400, **START)
    moved = said(worker=W2, epoch=Epoch(2), attempt=2, started_at_ms=465)
    still = {(declared.STARTED, OF_JOB): 1, (declared.STOOD_STILL, OF_JOB): 65}
    course = (tasks(said(**START)), tasks(stopped), tasks(moved))
    assert follow(*course, held=(W1,)) == [{(declared.STOPPED, OF_JOB): 1}, {}]
    assert follow(*course, held=(W2,)) == [{}, still], "who has it now tells it"


def test_what_is_said_again_of_a_task_that_was_stopped_is_no_start() -> None:
    stopped = said(state=TaskState.STOPPED, finished_at_ms=400, **START)
    assert follow(tasks(stopped), tasks(replaced(stopped, epoch=Epoch(2)))) == [{}]


def test_what_waited_and_was_never_begun_was_not_stopped() -> None:
    assert follow(tasks(), tasks(said(state=TaskState.STOPPED))) == [{}]


def test_a_death_of_spark_is_no_failure() -> None:
    dead = said(state=TaskState.PENDING, attempt=2, spark_deaths=1)
    assert follow(tasks(said(**START)), tasks(dead)) == [{(declared.SPARK_DEATHS, OF_JOB): 1}]


def test_a_death_of_a_process_is_told_by_who_has_the_task_now() -> None:
    lost = said(state=TaskState.PENDING, worker=W2, epoch=Epoch(2), attempt=2, process_deaths=1)
    died = {(declared.PROCESS_DEATHS, OF_JOB): 1}
    assert follow(tasks(said(**START)), tasks(lost), held=(W2,)) == [died]
    assert follow(tasks(said(**START)), tasks(lost), held=(W1,)) == [{}]


def test_a_conflict_with_another_writer_is_no_failure() -> None:
    waits = said(state=TaskState.PENDING, attempt=2, conflicts=1)
    assert follow(tasks(said(**START)), tasks(waits)) == [{(declared.CONFLICTS, OF_JOB): 1}]


def round_of(epoch: int, *, applied: int | None = None, **changes: Any) -> StatusSnapshot:
    return group_snapshot(epoch, applied=applied, **changes)


def test_the_leader_of_a_round_counts_it_and_its_moves() -> None:
    counted = {(declared.REBALANCES, ()): 1, (declared.MOVED, ("job", "balance")): 1}
    before, now = round_of(5), round_of(6, applied=5)
    assert follow(before, now, now, held=(W1,)) == [counted, {}]
    assert follow(before, now, held=(W2,)) == [{}]


@pytest.mark.parametrize(("source", "target"), [(None, W1), (W1, None), (W1, W1)])
def test_what_only_starts_or_stops_or_comes_back_has_not_moved(
    source: WorkerId | None, target: WorkerId | None
) -> None:
    move = Move(tasks=frozenset({T0}), source=source, target=target, reason=MoveReason.RETURNED)
    assert follow(round_of(5), round_of(6, applied=5, moves=(move,))) == [{(declared.REBALANCES, ()): 1}]


def test_what_could_not_be_made_ready_is_counted() -> None:
    in_vain = round_of(6, applied=5, moves=(), given_up={W2: frozenset({T0, T1})})
    (counted,) = follow(round_of(5), in_vain)
    assert counted[declared.LESSONS_GIVEN_UP, OF_JOB] == 2


def test_a_rebalance_lasts_from_the_first_round_of_a_converged_group_until_it_is_converged_again() -> None:
    course = [
        round_of(5),
        round_of(6, applied=5, at_ms=6_000, moves=()),
        round_of(7, applied=6, at_ms=7_000, moves=()),
        round_of(7, at_ms=7_000, moves=()),
    ]
    *_, last = follow(*course, now_ms=7_500)
    assert last == {(declared.REBALANCE_TIME, ()): 1_500}
    *_, last = follow(*course, held=(W2,), now_ms=7_500)
    assert not last, "one process tells it"


def test_who_comes_in_the_middle_of_it_knows_since_when_the_round_was() -> None:
    (converged,) = follow(round_of(6, applied=5, at_ms=6_000), round_of(6, at_ms=6_000), now_ms=6_800)
    assert converged == {(declared.REBALANCE_TIME, ()): 800}


def test_a_worker_that_comes_from_another_process_counts_on() -> None:
    """The round had been written when its worker was handed over, and not read."""
    looked = Course.beginning(round_of(6), counted=Epoch(5))
    _, samples = looked.until(round_of(6), "g", (W1,), 0)
    assert (declared.REBALANCES, ()) in told(samples)
    looked = Course.beginning(round_of(6), counted=Epoch(0))
    assert looked.until(round_of(6), "g", (W1,), 0)[1] == []
    looked = Course.beginning(round_of(6), counted=Epoch(9))
    assert told(looked.until(round_of(7), "g", (W1,), 0)[1]), "the topics were made anew"


def test_the_leader_speaks_or_else_the_first_who_is_there() -> None:
    status = group_snapshot(5)
    left = {W1: worker_status("w1", 5, WorkerPhase.LEFT)}
    assert spokesman(StatusSnapshot()) is None
    assert spokesman(status) == W1
    assert spokesman(replace(status, group=group_record(5, leader=W2))) == W2
    assert spokesman(replace(status, workers={**status.workers, **left})) == W2
    assert spokesman(replace(status, workers={**left, W2: worker_status("w2", 5, WorkerPhase.LEFT)})) is None
