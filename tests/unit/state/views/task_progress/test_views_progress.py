"""What should run, how far jobs are, and when a group is drained or converged."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.assignment.model import Memory
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress import progress
from airflow_provider.state.views.task_progress.progress import (
    JobProgress,
    JobState,
    configured,
    converged,
    group_drained,
    job_progress,
    revocation_rank,
)
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId, planner_of
from airflow_provider.values.replacing import replaced

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9, run_key="r1")
PLANNER = planner_of("a")
A0, A1, A2 = (TaskId("a", index) for index in range(3))


def _plan(job: JobDefinition = JOB, tasks: int = 2) -> PlanRecord:
    return PlanRecord.of(job, [{"i": index} for index in range(tasks)], planned_by=W1, at_ms=0)


def _jobs(job: JobDefinition = JOB, plan: PlanRecord | None = None) -> JobsSnapshot:
    return JobsSnapshot(jobs={job.name: job}, plans={job.name: plan} if plan else {})


def _statuses(states: Mapping[TaskId, TaskState], **others: Any) -> dict[TaskId, TaskStatus]:
    return {
        task: TaskStatus(**{"task": task, "state": state, "epoch": Epoch(1), "worker": W1, "run_key": "r1", **others})
        for task, state in states.items()
    }


def _progress(jobs: JobsSnapshot, status: StatusSnapshot) -> JobProgress:
    seen = job_progress("a", jobs, status)
    assert seen is not None
    return seen


def test_a_job_without_a_plan_needs_its_planner_alone() -> None:
    assert configured(_jobs(), {}) == {PLANNER}


def test_with_its_plan_made_a_job_needs_its_tasks_and_no_planner() -> None:
    assert configured(_jobs(plan=_plan()), {}) == {A0, A1}


def test_an_empty_plan_needs_nothing() -> None:
    assert configured(_jobs(plan=_plan(tasks=0)), {}) == frozenset()


def test_what_is_needed_is_made_of_names_that_are_there_already() -> None:
    """A leader asks after each change: a hundred thousand new ones would wake the garbage collector each time."""
    known = _statuses({TaskId("a", 0): TaskState.RUNNING})
    needed = configured(_jobs(plan=_plan()), known)
    assert {task for task in needed if task is known[A0].task} == {A0}


@pytest.mark.parametrize("state", list(TaskState))
def test_a_task_is_needed_until_it_finished_or_failed_for_good(state: TaskState) -> None:
    needed = configured(_jobs(plan=_plan()), _statuses({A0: state}))
    assert (A0 not in needed) == (state in (TaskState.FINISHED, TaskState.FAILED))
    assert A1 in needed


def test_a_new_run_key_needs_everything_again() -> None:
    again = dataclasses.replace(JOB, run_key="r2")
    done = _statuses({PLANNER: TaskState.FINISHED, A0: TaskState.FINISHED})
    assert configured(_jobs(again, _plan()), done) == {PLANNER}
    assert configured(_jobs(again, _plan(again)), done) == {A0, A1}


def test_a_changed_definition_needs_everything_again_even_in_the_same_run() -> None:
    plan, changed = _plan(), dataclasses.replace(JOB, config={"new": True})
    done = _statuses({A0: TaskState.FINISHED}, fingerprint=plan.fingerprints[0])
    assert configured(_jobs(changed, plan), done) == {PLANNER}
    assert configured(_jobs(changed, _plan(changed)), done) == {A0, A1}


def test_a_planner_that_failed_for_good_is_not_needed_but_one_that_was_stopped_is() -> None:
    assert configured(_jobs(), _statuses({PLANNER: TaskState.FAILED})) == frozenset()
    assert configured(_jobs(), _statuses({PLANNER: TaskState.STOPPED})) == {PLANNER}


def test_a_planner_that_finished_without_a_plan_to_be_seen_is_needed_again() -> None:
    assert configured(_jobs(), _statuses({PLANNER: TaskState.FINISHED})) == {PLANNER}


def test_a_planner_that_plans_again_and_again_is_always_needed() -> None:
    watching = dataclasses.replace(JOB, replan_interval_ms=1_000)
    assert configured(_jobs(watching, _plan(watching)), _statuses({A0: TaskState.FINISHED})) == {PLANNER, A1}


def test_a_new_plan_needs_only_finished_tasks_whose_config_changed_again() -> None:
    old = PlanRecord.of(JOB, [{"table": "x"}, {"table": "y"}], planned_by=W1, at_ms=0)
    new = PlanRecord.of(JOB, [{"table": "x"}, {"table": "z"}], planned_by=W1, at_ms=9)
    done = {
        **_statuses({A0: TaskState.FINISHED}, fingerprint=old.fingerprints[0]),
        **_statuses({A1: TaskState.FINISHED}, fingerprint=old.fingerprints[1]),
    }
    assert configured(_jobs(plan=old), done) == frozenset()
    assert configured(_jobs(plan=new), done) == {A1}


def test_tasks_left_over_from_a_longer_plan_do_not_count() -> None:
    assert configured(_jobs(plan=_plan(tasks=1)), _statuses({A1: TaskState.RUNNING})) == {A0}


@pytest.mark.parametrize(
    ("states", "state", "complete"),
    [
        ({}, JobState.RUNNING, False),
        ({A0: TaskState.FINISHED}, JobState.RUNNING, False),
        ({A0: TaskState.FINISHED, A1: TaskState.FINISHED}, JobState.FINISHED, True),
        ({A0: TaskState.FAILED, A1: TaskState.RUNNING}, JobState.FAILED, False),
        ({A0: TaskState.FAILED, A1: TaskState.FINISHED}, JobState.FAILED, True),
    ],
)
def test_a_job_is_as_far_as_its_tasks(states: Mapping[TaskId, TaskState], state: JobState, complete: bool) -> None:
    seen = _progress(_jobs(plan=_plan()), StatusSnapshot(tasks=_statuses(states)))
    assert (seen.state, seen.complete, seen.planned) == (state, complete, 2)
    assert sum(seen.counts.values()) == 2


def test_a_job_without_a_plan_is_planning_unless_its_planner_failed() -> None:
    planning = _progress(_jobs(), StatusSnapshot(tasks={}))
    assert (planning.state, planning.complete, planning.planned) == (JobState.PLANNING, False, None)
    why = TaskFailure(message="no such module")
    failed = _progress(_jobs(), StatusSnapshot(tasks=_statuses({PLANNER: TaskState.FAILED}, error=why)))
    assert (failed.state, failed.complete, failed.errors) == (JobState.FAILED, True, {PLANNER: why})


def test_a_job_with_an_empty_plan_is_finished() -> None:
    assert _progress(_jobs(plan=_plan(tasks=0)), StatusSnapshot(tasks={})).state is JobState.FINISHED


def test_errors_are_those_of_tasks_that_did_not_make_it_in_the_end() -> None:
    why = TaskFailure(message="boom")
    statuses = _statuses({A0: TaskState.FINISHED, A1: TaskState.PENDING}, error=why)
    assert _progress(_jobs(plan=_plan()), StatusSnapshot(tasks=statuses)).errors == {A1: why}


def test_an_unknown_job_has_no_progress() -> None:
    assert job_progress("b", _jobs(), StatusSnapshot(tasks={})) is None


@pytest.mark.parametrize(
    ("states", "everywhere"),
    [
        ({A0: TaskState.RUNNING}, False),
        ({A0: TaskState.RUNNING, A1: TaskState.PENDING}, False),
        ({A0: TaskState.RUNNING, A1: TaskState.FAILED}, False),
        ({A0: TaskState.RUNNING, A1: TaskState.RUNNING}, True),
        ({A0: TaskState.RUNNING, A1: TaskState.FINISHED}, True),
        ({A0: TaskState.FINISHED, A1: TaskState.FINISHED}, False),
    ],
)
def test_a_job_runs_everywhere_when_no_task_waits(states: Mapping[TaskId, TaskState], everywhere: bool) -> None:
    seen = _progress(_jobs(plan=_plan()), StatusSnapshot(tasks=_statuses(states)))
    assert seen.running_everywhere is everywhere


def test_a_group_is_drained_when_all_its_bounded_jobs_are_complete() -> None:
    done = _statuses({A0: TaskState.FINISHED, A1: TaskState.FAILED})
    jobs = _jobs(plan=_plan())
    assert group_drained(jobs, done)
    assert not group_drained(jobs, {})
    assert not group_drained(JobsSnapshot(), done)
    streaming = JobDefinition(name="s", entry_point="m:f", kind=TaskKind.STREAMING)
    assert not group_drained(dataclasses.replace(jobs, jobs={**jobs.jobs, "s": streaming}), done)


@given(
    st.sampled_from([None, _plan(), _plan(tasks=0)]),
    st.lists(st.tuples(st.sampled_from([PLANNER, A0, A1]), st.sampled_from(list(TaskState)))),
)
def test_asked_after_each_change_it_says_the_same_as_asked_once(
    plan: PlanRecord, changes: list[tuple[TaskId, TaskState]]
) -> None:
    states: dict[TaskId, TaskState] = {}
    jobs = _jobs(plan=plan)
    for task, state in changes:
        states[task] = state
        assert group_drained(jobs, _statuses(states)) == group_drained(_jobs(plan=plan), _statuses(states))


def test_after_a_change_a_group_with_work_left_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = _jobs(plan=_plan())
    assert not group_drained(jobs, _statuses({A0: TaskState.RUNNING, A1: TaskState.RUNNING}))
    monkeypatch.setattr(progress, "_unfinished", None)
    assert not group_drained(jobs, _statuses({A0: TaskState.FINISHED, A1: TaskState.RUNNING}))


def _workers(*reports: tuple[WorkerId, WorkerPhase, int]) -> dict[WorkerId, WorkerStatus]:
    return {
        worker: WorkerStatus(worker=worker, state=phase, epoch=Epoch(epoch), slots=1)
        for worker, phase, epoch in reports
    }


ALONE = {W1: frozenset({A0})}
SHARED = {W1: frozenset({A0}), W2: frozenset({A1})}
STABLE, DEFERRED, JOINING = WorkerPhase.STABLE, WorkerPhase.DEFERRED, WorkerPhase.JOINING


@pytest.mark.parametrize(
    ("record", "workers", "expected"),
    [
        (None, _workers(), False),
        (record_of(SHARED), _workers((W1, STABLE, 5), (W2, DEFERRED, 5)), True),
        (record_of(SHARED), _workers((W1, STABLE, 5), (W2, STABLE, 6), (W3, STABLE, 1)), True),
        (record_of(SHARED), _workers((W1, STABLE, 5), (W2, STABLE, 4)), False),
        (record_of(SHARED), _workers((W1, STABLE, 5), (W2, JOINING, 5)), False),
        (record_of(SHARED), _workers((W1, STABLE, 5)), False),
        (record_of(ALONE, revoked={W1: frozenset({A1})}), _workers((W1, STABLE, 5)), False),
        (record_of(ALONE, delay_ms=1), _workers((W1, STABLE, 5)), False),
        (record_of(ALONE, memory=Memory(deadline_ms=9)), _workers((W1, STABLE, 5)), False),
    ],
)
def test_an_epoch_has_converged_when_all_applied_it_and_nothing_is_to_follow(
    record: ClassicRecord | None, workers: Mapping[WorkerId, WorkerStatus], expected: bool
) -> None:
    assert converged(record, workers) is expected


def test_what_costs_least_to_stop_comes_first() -> None:
    statuses = {
        **_statuses({A0: TaskState.PENDING, A1: TaskState.RUNNING}),
        **_statuses({A2: TaskState.RUNNING}, kind=TaskKind.STREAMING),
        **_statuses({TaskId("a", 3): TaskState.PENDING}, kind=TaskKind.STREAMING),
    }
    on_a_cluster = TaskId("a", 4)
    (driver,) = _statuses({on_a_cluster: TaskState.RUNNING}).values()
    statuses[on_a_cluster] = replaced(driver, handle={"cluster": "yarn"})
    order = sorted(statuses, key=lambda task: (revocation_rank(statuses).get(task, 0), task))
    assert order == [A0, TaskId("a", 3), A2, on_a_cluster, A1]


# ---- where a task is of which nothing is said


def _status(
    states: Mapping[TaskId, TaskState] | None = None,
    *,
    owner: WorkerId = W1,
    epoch: int = 5,
    workers: Mapping[WorkerId, WorkerStatus] | None = None,
    **told: Any,
) -> StatusSnapshot:
    """Somebody has both tasks since epoch 5."""
    words = _statuses(states or {}, **told)
    record = record_of({owner: frozenset({A0, A1})}, epoch=epoch, config_offset=ConfigOffset(3))
    return StatusSnapshot(group=record, tasks=words, workers=workers or {})


@pytest.mark.parametrize(
    ("status", "state", "worker"),
    [
        (_status(), TaskState.PENDING, W1),
        (_status({A0: TaskState.RUNNING}), TaskState.RUNNING, W1),
        (_status({A0: TaskState.PENDING}), TaskState.PENDING, W1),
        (_status({A0: TaskState.STOPPED}), TaskState.PENDING, W1),
        (_status({A0: TaskState.STOPPED}, epoch=1), TaskState.STOPPED, W1),
        (_status({A0: TaskState.FINISHED}), TaskState.FINISHED, W1),
        (_status({A0: TaskState.FAILED}, owner=W2), TaskState.FAILED, W1),
        (_status({A0: TaskState.RUNNING}, owner=W2), TaskState.PENDING, W2),
        (_status({A0: TaskState.STOPPED}, owner=W2), TaskState.PENDING, W2),
        (_status({A0: TaskState.PENDING}, owner=W2), TaskState.PENDING, W2),
        (_status({A0: TaskState.RUNNING}, run_key="the run before"), TaskState.PENDING, W1),
        (_status({A0: TaskState.RUNNING}, owner=W2, epoch=1), TaskState.RUNNING, W1),
    ],
    ids=[
        "nothing was said",
        "it runs there",
        "its worker says that it waits",
        "was stopped before it came back",
        "has been stopped since",
        "is over",
        "is over, elsewhere",
        "ran elsewhere",
        "was stopped elsewhere",
        "waited elsewhere",
        "ran in another run",
        "the round's record is older than the word",
    ],
)
def test_a_task_that_somebody_has_waits_unless_its_worker_says_otherwise(
    status: StatusSnapshot, state: TaskState, worker: WorkerId
) -> None:
    jobs = _jobs(plan=_plan())
    last = effective_status(A0, jobs, status)
    assert last is not None
    assert (last.state, last.worker) == (state, worker)
    assert _progress(jobs, status).counts[state] >= 1


def test_a_task_that_waits_tells_which_attempt_that_is_and_why_the_last_one_failed() -> None:
    why = TaskFailure(message="boom")
    told = _status({A0: TaskState.STOPPED}, owner=W2, attempt=2, failures=1, error=why, started_at_ms=7)
    last = effective_status(A0, _jobs(plan=_plan()), told)
    assert last is not None
    assert (last.attempt, last.failures, last.error, last.started_at_ms, last.epoch) == (3, 1, why, None, 5)


@pytest.mark.parametrize(
    ("jobs", "status"),
    [
        (_jobs(plan=_plan()), StatusSnapshot()),
        (_jobs(plan=_plan()), StatusSnapshot(group=record_of({W1: frozenset()}, config_offset=ConfigOffset(3)))),
        (dataclasses.replace(_jobs(plan=_plan()), defined_at={"a": 3}), _status()),
        (
            _jobs(plan=_plan()),
            _status(workers={W1: WorkerStatus(worker=W1, state=WorkerPhase.LEFT, epoch=Epoch(5), slots=1)}),
        ),
    ],
    ids=["no round", "nobody was given it", "the job was submitted since", "its worker has left"],
)
def test_a_task_that_nobody_has_is_unassigned(jobs: JobsSnapshot, status: StatusSnapshot) -> None:
    assert effective_status(A0, jobs, status) is None
    assert _progress(jobs, status).counts == {TaskState.UNASSIGNED: 2}


def test_what_is_not_configured_stands_nowhere() -> None:
    assert effective_status(A2, _jobs(plan=_plan()), _status({A2: TaskState.RUNNING})) is None
