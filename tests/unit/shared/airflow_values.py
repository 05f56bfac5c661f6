"""What tests of operators, sensors and triggers give them: contexts, snapshots of topics, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from group_records import record_of

from airflow_provider.assignment.model import Load, Move, MoveReason
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskFailure, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.records import WorkerStatus as Worker
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId, WorkerId

URL = "http://airflow.example/dags/d/runs/r1/tasks/w?try_number=1"


@dataclass
class FakeTaskInstance:
    """As much of a task instance as operators look at."""

    dag_id: str = "dag"
    task_id: str = "task"
    run_id: str = "r1"
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0
    log_url: str = URL
    pushed: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def context(**changes: Any) -> Any:
    ti = FakeTaskInstance(**changes)
    return {"ti": ti, "run_id": ti.run_id, "task_instance": ti}


def job(name: str = "job", **changes: Any) -> JobDefinition:
    return JobDefinition(**{"name": name, "entry_point": "module:Job", "max_tasks": 9, "run_key": "r1", **changes})


def jobs_snapshot(definition: JobDefinition, *, tasks: int | None = None, slots: int = 1) -> JobsSnapshot:
    """The job, planned with so many tasks, which take so many slots each, or not planned."""
    plans = {}
    if tasks is not None:
        configs = [{"index": index, "slots": slots} for index in range(tasks)]
        plans[definition.name] = PlanRecord.of(definition, configs, planned_by=WorkerId("w"), at_ms=1)
    return JobsSnapshot(jobs={definition.name: definition}, defined_at={definition.name: 0}, plans=plans)


def status_snapshot(
    jobs: JobsSnapshot, name: str, *states: TaskState, record: ClassicRecord | None = None, worker: str = "w"
) -> StatusSnapshot:
    """Each task of the job in a state; a failed one has an error, a finished one a result."""
    statuses = {}
    for index, state in enumerate(states):
        task = TaskId(name, index)
        work = jobs.work_of(task)
        assert work is not None
        statuses[task] = TaskStatus(
            task=task,
            state=state,
            epoch=Epoch(1),
            worker=WorkerId(worker),
            run_key=work.definition.run_key,
            fingerprint=work.fingerprint,
            finished_at_ms=1000 if state.final else None,
            error=TaskFailure(message=f"no luck with {index}", traceback="...") if state is TaskState.FAILED else None,
            result={"rows": index} if state is TaskState.FINISHED else None,
        )
    return StatusSnapshot(tasks=statuses, group=record)


def group_record(epoch: int, **changes: Any) -> ClassicRecord:
    """Two workers with a task each; the second one has just got its from the first."""
    one, two, task = WorkerId("w1"), WorkerId("w2"), TaskId("job", 1)
    values: dict[str, Any] = {
        "assignment": {one: frozenset({TaskId("job", 0)}), two: frozenset({task})},
        "leader_member": MemberId("w1-member"),
        "config_offset": ConfigOffset(3),
        "members": {one: MemberId("w1-member"), two: MemberId("w2-member")},
        "moves": (Move(tasks=frozenset({task}), source=one, target=two, reason=MoveReason.BALANCE, load=Load(3, 2)),),
        "reason": "w2 joined",
        "at_ms": 5_000,
    }
    return record_of(epoch=epoch, **{**values, **changes})


def worker_status(worker: str, epoch: int, state: WorkerPhase = WorkerPhase.STABLE) -> Worker:
    return Worker(worker=WorkerId(worker), state=state, epoch=Epoch(epoch), slots=2, url=URL)


def group_snapshot(epoch: int, *, applied: int | None = None, **changes: Any) -> StatusSnapshot:
    """A group whose workers have applied an epoch (by default the last one)."""
    workers = [worker_status(name, epoch if applied is None else applied) for name in ("w1", "w2")]
    return StatusSnapshot(group=group_record(epoch, **changes), workers={worker.worker: worker for worker in workers})
