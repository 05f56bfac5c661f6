"""A group with two workers and one job, to be shown."""

from __future__ import annotations

from group_records import record_of
from rich.console import Console

from airflow_provider.cli.group_commands.status import render
from airflow_provider.kafka.group_requests.messages import DescribedMember, GroupDescription
from airflow_provider.state.records import (
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId, planner_of

W1, W2 = WorkerId("w1"), WorkerId("w2")
A0, A1, A2, A3 = (TaskId("a", index) for index in range(4))
JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9)
PLAN = PlanRecord.of(JOB, [{}] * 3, planned_by=W1, at_ms=0)
JOBS = JobsSnapshot(jobs={"a": JOB}, plans={"a": PLAN})


def worker(name: WorkerId, state: WorkerPhase = WorkerPhase.STABLE) -> WorkerStatus:
    return WorkerStatus(worker=name, state=state, epoch=Epoch(5), slots=1, url=f"http://{name}")


def told(task: TaskId, state: TaskState, by: WorkerId = W1, error: str | None = None) -> TaskStatus:
    why = TaskFailure.of(error) if error else None
    return TaskStatus(task=task, state=state, epoch=Epoch(5), worker=by, error=why)


BUSY = StatusSnapshot(
    group=record_of({W1: frozenset({A0, A1}), W2: frozenset({A2})}, reason="w2 joined"),
    workers={W1: worker(W1), W2: worker(W2, WorkerPhase.DEFERRED)},
    tasks={
        A0: told(A0, TaskState.RUNNING),
        A1: told(A1, TaskState.PENDING),
        A2: told(A2, TaskState.FAILED, W2, "boom"),
        A3: told(A3, TaskState.FINISHED),
        planner_of("a"): told(planner_of("a"), TaskState.FINISHED),
        TaskId("removed", 0): told(TaskId("removed", 0), TaskState.STOPPED),
    },
)


def coordinator(*members: str, state: str = "Stable", error: KafkaErrorCode = KafkaErrorCode.NONE) -> GroupDescription:
    """The group as its coordinator describes it."""
    return GroupDescription(
        error=error,
        group_id="g",
        state=state,
        protocol_type="connect",
        protocol="sessioned" if members else "",
        members=tuple(
            DescribedMember(
                member_id=MemberId(f"{name}-1"),
                group_instance_id=WorkerId(name),
                client_id="",
                client_host="",
                metadata=b"",
                assignment=b"",
            )
            for name in members
        ),
    )


def page(jobs: JobsSnapshot, status: StatusSnapshot, *, wall_ms: int = 0) -> str:
    """The group as ``cospark status`` shows it."""
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with console.file:
        console.print(render("g", jobs, status, wall_ms=wall_ms))
        return console.export_text()
