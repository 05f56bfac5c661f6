"""Where all tasks of a job are, looked at together, is where each of them is."""

from __future__ import annotations

from dataclasses import replace

from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.placed import Placed, PlacedTask
from airflow_provider.ledger.progress import job_progress
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ledger.task_places import effective_status, effective_statuses
from airflow_provider.protocol.model import ConfigOffset, Epoch, TaskId, WorkerId
from airflow_provider.records import (
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
    stopped = {"a": Placed(HaltRecord(job="a", halt=Halt.STOPPED, by="", at_ms=0), 4)}
    jobs = JobsSnapshot(
        jobs={"a": JOB},
        plans={"a": PLAN},
        defined_at={"a": draw(st.sampled_from([0, 9]))},
        task_halts=halted,
        halts=draw(st.sampled_from([{}, stopped])),
    )
    return jobs, StatusSnapshot(group=record, workers=said, tasks=words)


@given(groups())
def test_together_is_one_after_the_other(group: tuple[JobsSnapshot, StatusSnapshot]) -> None:
    jobs, status = group
    waiting: dict[TaskId, TaskStatus] = {}
    together = dict(effective_statuses("a", jobs, status, waiting))
    assert dict(effective_statuses("a", jobs, status, waiting)) == together
    assert together == {task: effective_status(task, jobs, status) for task in TASKS}
    progress = job_progress("a", jobs, status)
    assert progress is not None
    states = [last.state if last else TaskState.UNASSIGNED for last in together.values()]
    assert dict(progress.counts) == {state: states.count(state) for state in TaskState if state in states}


def test_of_a_job_without_a_plan_there_is_nothing() -> None:
    jobs = JobsSnapshot(jobs={"a": JOB})
    assert list(effective_statuses("a", jobs, StatusSnapshot(), {})) == []
    assert list(effective_statuses("gone", replace(jobs, plans={"gone": PLAN}), StatusSnapshot(), {})) == []
