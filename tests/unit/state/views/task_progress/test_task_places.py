"""Where all tasks of a job are, looked at together, is where each of them is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.records import (
    Halt,
    HaltRecord,
    JobDefinition,
    PlanRecord,
    TaskHaltRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.reports.job_description import JobDescription
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed, PlacedTask
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.state.views.task_progress.shown_tasks import shown_status, shown_statuses, state_of_nobodys
from airflow_provider.state.views.task_progress.task_places import effective_status, effective_statuses
from airflow_provider.ui.views.tasks import found_tasks
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, WorkerId

WORKERS = tuple(map(WorkerId, ("w1", "w2")))
TASKS = tuple(TaskId("a", index) for index in range(6))
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9, run_key="r")
PLAN = PlanRecord.of(JOB, [{"i": task.index} for task in TASKS], planned_by=WORKERS[0], at_ms=0)


@st.composite
def groups(draw: st.DrawFn) -> tuple[JobsSnapshot, StatusSnapshot]:
    words = {
        task: TaskStatus(
            task=task,
            state=draw(st.sampled_from(TaskState)),
            epoch=Epoch(draw(st.integers(3, 6))),
            worker=draw(st.sampled_from(WORKERS)),
            run_key=draw(st.sampled_from(["r", "former"])),
            fingerprint=draw(st.sampled_from(["", PLAN.fingerprints[task.index], "other"])),
            started_at_ms=draw(st.sampled_from([None, 7])),
        )
        for task in draw(st.sets(st.sampled_from(TASKS)))
    }
    owners = draw(st.dictionaries(st.sampled_from(TASKS), st.sampled_from(WORKERS)))
    assignment = {worker: frozenset(task for task in owners if owners[task] == worker) for worker in WORKERS}
    record = draw(st.sampled_from([None, record_of(assignment, config_offset=ConfigOffset(5))]))
    phases = {worker: draw(st.sampled_from([WorkerPhase.STABLE, WorkerPhase.LEFT])) for worker in WORKERS}
    said = {name: WorkerStatus(worker=name, state=phase, epoch=Epoch(5), slots=1) for name, phase in phases.items()}
    halted = {
        task: PlacedTask(
            TaskHaltRecord(
                job="a", index=task.index, run_key="r", fingerprint=PLAN.fingerprints[task.index], by="", at_ms=0
            ),
            4,
        )
        for task in draw(st.sets(st.sampled_from(TASKS)))
    }
    halts = [{"a": Placed(HaltRecord(job="a", halt=halt, by="", at_ms=0), 4)} for halt in Halt]
    jobs = JobsSnapshot(
        jobs={"a": JOB},
        plans={"a": PLAN},
        defined_at={"a": draw(st.sampled_from([0, 9]))},
        task_halts=halted,
        halts=draw(st.sampled_from([{}, *halts])),
    )
    return jobs, StatusSnapshot(group=record, workers=said, tasks=words)


@pytest.mark.slow
@given(groups())
def test_together_is_one_after_the_other(group: tuple[JobsSnapshot, StatusSnapshot]) -> None:
    jobs, status = group
    waiting: dict[TaskId, TaskStatus] = {}
    together = dict(effective_statuses("a", jobs, status, waiting))
    assert dict(effective_statuses("a", jobs, status, waiting)) == together
    assert together == {task: effective_status(task, jobs, status) for task in TASKS}
    shown = dict(shown_statuses("a", jobs, status, waiting))
    assert dict(shown_statuses("a", jobs, status, waiting)) == shown
    assert shown == {task: shown_status(task, jobs, status) for task in TASKS}
    progress = job_progress("a", jobs, status)
    assert progress is not None
    states = [last.state if last else state_of_nobodys("a", jobs) for last in shown.values()]
    assert dict(progress.counts) == {state: states.count(state) for state in TaskState if state in states}


@pytest.mark.parametrize(("halt", "state"), [(Halt.PAUSED, TaskState.PAUSED), (Halt.STOPPED, TaskState.STOPPED)])
def test_people_see_of_a_halted_jobs_tasks_that_they_are_halted(halt: Halt, state: TaskState) -> None:
    """Their workers write that they have stopped, and of those that had not begun nothing."""
    stopped, finished, runs, not_begun, nobodys, singly = TASKS
    states = {stopped: TaskState.STOPPED, finished: TaskState.FINISHED, runs: TaskState.RUNNING}
    words = {
        task: TaskStatus(
            task=task,
            state=said,
            epoch=Epoch(5),
            worker=WORKERS[0],
            run_key="r",
            fingerprint=PLAN.fingerprints[task.index],
        )
        for task, said in states.items()
    }
    work = PLAN.fingerprints[singly.index]
    alone = TaskHaltRecord(job="a", index=singly.index, run_key="r", fingerprint=work, by="", at_ms=0)
    jobs = JobsSnapshot(
        jobs={"a": JOB},
        plans={"a": PLAN},
        defined_at={"a": 0},
        halts={"a": Placed(HaltRecord(job="a", halt=halt, by="", at_ms=0), 4)},
        task_halts={singly: PlacedTask(alone, 4)},
    )
    record = record_of({WORKERS[0]: frozenset(TASKS) - {nobodys}}, config_offset=ConfigOffset(5))
    status = StatusSnapshot(group=record, tasks=words)
    seen = {
        task: last.state if last else state_of_nobodys("a", jobs)
        for task, last in shown_statuses("a", jobs, status, {})
    }
    assert seen == {
        stopped: state,
        finished: TaskState.FINISHED,
        runs: TaskState.RUNNING,
        not_begun: state,
        nobodys: state,
        singly: TaskState.STOPPED,
    }
    description = JobDescription.of("a", jobs, status)
    assert description is not None
    assert {task.task: task.state for task in description.tasks} == seen
    assert {found.task: found.state for found in found_tasks(jobs, status)} == seen


def test_of_a_job_without_a_plan_there_is_nothing() -> None:
    jobs = JobsSnapshot(jobs={"a": JOB})
    assert list(effective_statuses("a", jobs, StatusSnapshot(), {})) == []
    assert list(effective_statuses("gone", replace(jobs, plans={"gone": PLAN}), StatusSnapshot(), {})) == []
