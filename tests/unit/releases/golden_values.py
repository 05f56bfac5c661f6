"""What is in ``golden/0.1.3.json``, in its order: the values that were written, by the kind of document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from group_records import record_of

from airflow_provider.assignment.learners.model import LearnerMemory, Limits
from airflow_provider.assignment.model import Load, Memory, Move, MoveReason
from airflow_provider.assignment.policy import Deferred, Incremental
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.memberships.group_protocols import Coordinators, GroupProtocolName
from airflow_provider.integration.memberships.worker_values import WorkerSpec
from airflow_provider.state.records import (
    ActionEvent,
    CheckpointClaim,
    ControlAction,
    ControlRecord,
    FailedWarmUp,
    Halt,
    HaltRecord,
    JobDefinition,
    Lesson,
    LevelsRecord,
    LogLevel,
    PlanRecord,
    RebalanceEvent,
    RebalanceRecord,
    Removal,
    RestartRecord,
    StreamProgress,
    TaskEvent,
    TaskFailure,
    TaskHaltRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WarmUpDeaths,
    WorkerPhase,
    WorkerStatus,
    WrittenAsset,
)
from airflow_provider.triggers.conditions import EpochCondition, JobCondition, JobGoal, LeaveCondition
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import (
    ConfigOffset,
    ConnectProtocol,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
)
from airflow_provider.worker.settings import Until

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
A0, A1, A2 = (TaskId("flights", index) for index in range(3))
WALL_MS: Final = 1_700_000_000_000

JOB: Final = JobDefinition(
    name="flights",
    entry_point="jobs.flights:Clean",
    config={"months": [1, 2], "share": 0.5},
    max_tasks=12,
    run_key="manual__2013",
    retries=2,
    retry_delay_ms=500,
    timeout_ms=60_000,
    submitted_at_ms=WALL_MS,
    submitted_by="etl.submit",
    removal=41,
    basis="b12aee7c9230e556",
)
PLAN: Final = PlanRecord(
    job="flights",
    run_key="manual__2013",
    definition=JOB.fingerprint,
    configs=({"month": 1}, {"month": 2}),
    planned_by=W1,
    at_ms=WALL_MS,
    stateful=True,
    basis="b12aee7c9230e556",
)
STREAM: Final = TaskStatus(
    task=A1,
    state=TaskState.RUNNING,
    epoch=Epoch(7),
    worker=W1,
    run_key="manual__2013",
    kind=TaskKind.STREAMING,
    fingerprint="abc",
    attempt=3,
    failures=1,
    spark_deaths=1,
    started_at_ms=WALL_MS,
    error=TaskFailure(message="boom", traceback="Traceback\n  boom"),
    handle={"session": "s"},
    claim=CheckpointClaim(key="orders", process="host/place/1/2", number=4, lease_ms=58_000),
    progress=StreamProgress(batch=9, rows_per_second=2.5, at_ms=WALL_MS + 1),
)
FINISHED: Final = TaskStatus(
    task=A0,
    state=TaskState.FINISHED,
    epoch=Epoch(7),
    worker=W2,
    started_at_ms=WALL_MS,
    finished_at_ms=WALL_MS + 5,
    retry_at_ms=WALL_MS - 5,
    result={"rows": 7, "first": None},
    wrote=(WrittenAsset(name="flights", uri="s3://lake/flights", rows=7), WrittenAsset(name="log", uri="log")),
)
WORKER: Final = WorkerStatus(
    worker=W1,
    state=WorkerPhase.STABLE,
    epoch=Epoch(7),
    slots=4,
    url="http://airflow.example/w1",
    owned=frozenset({A0, A1}),
    running=frozenset({A1}),
    process="host/place/1/2",
    at_ms=WALL_MS,
    member_id=MemberId("m1"),
    returns_ms=61_000,
    condition="waiting for executors",
    learning=(Lesson(A2, 0.5, False), Lesson(TaskId("other", 0), 1.0, True)),
    leaves_soon=True,
    failed_warm_ups=(FailedWarmUp(A2, "no table"),),
    warm_up_deaths=(WarmUpDeaths(A2, 2),),
)
_REMEMBERED: Final = Memory(
    generation=GenerationId(9),
    assignment={W1: frozenset({A0}), W2: frozenset({A1})},
    revoked=frozenset({A2}),
    members=frozenset({W1, W2}),
    candidates=(W2,),
    deadline_ms=WALL_MS + 900,
    revoked_in_previous=True,
    successive_revocations=1,
    next_moves_at_ms=WALL_MS + 30_000,
    released=(Move(tasks=frozenset({A2}), source=W1, target=W2, reason=MoveReason.BALANCE),),
    awaited={W3: WALL_MS + 61_000},
    former={W1: frozenset({TaskId("old", 0)})},
)
EXTENSIBLE: Final = record_of(
    {W1: frozenset({A0}), W2: frozenset({A1})},
    epoch=9,
    protocol=SubProtocol.EXTENSIBLE,
    config_offset=ConfigOffset(41),
    revoked={W1: frozenset({A2})},
    moves=(Move(tasks=frozenset({A1}), source=W1, target=W2, reason=MoveReason.BALANCE, load=Load(3, 2)),),
    delay_ms=900,
    reason="w2 joined",
    step="w2 is ready for flights:1",
    at_ms=WALL_MS,
    policy=Incremental(max_moves=7, move_interval_ms=30_000, max_delay_ms=1_000),
    unchanged=2,
    learning={W2: frozenset({A0})},
    learned={W1: frozenset({A0})},
    lessons=(Move(tasks=frozenset({A0}), source=W1, target=W2, reason=MoveReason.BALANCE),),
    given_up={W2: frozenset({A2})},
    leaving_soon=frozenset({W1}),
    lost=frozenset({W3}),
    memory=_REMEMBERED,
    learner_memory=LearnerMemory(
        cooperative=_REMEMBERED,
        learned={W1: frozenset({A0})},
        learned_before={W1: frozenset({A1})},
        since_ms={W2: {A0: WALL_MS - 5_000}},
        given_up={W2: frozenset({A2})},
    ),
)


def _spec(**changes: Any) -> WorkerSpec:
    member: dict[str, Any] = {
        "group_id": "etl",
        "worker": W1,
        "url": "http://airflow.example/w1",
        "session_timeout_ms": 60_000,
        "heartbeat_interval_ms": 3_000,
        "rebalance_timeout_ms": 60_000,
        "lease_margin_ms": 2_000,
        **changes.pop("member", {}),
    }
    values: dict[str, Any] = {"slots": 2, "until": Until.DRAINED, "policy": Deferred(max_delay_ms=1_000), **changes}
    return WorkerSpec(member=MemberSettings(**member), **values)


LEARNS: Final = _spec(
    member={
        "protocol": ConnectProtocol.EXTENSIBLE,
        "learned": LearnedRule.WHEN_READY,
        "limits": Limits(per_worker=2, per_group=9, ready_from=0.75, longest_ms=600_000),
    },
    idle_timeout_ms=120_000,
)
DECLARED: Final = _spec(
    until=Until.FOREVER, group_protocol=GroupProtocolName.CONNECT, coordinators=Coordinators.DEDICATED
)

VALUES: Final[tuple[tuple[str, Any], ...]] = (
    ("JobDefinition", JOB),
    ("removed", Removal(by="etl.remove", at_ms=WALL_MS, run_key="manual__2013", bounded=True)),
    ("PlanRecord", PLAN),
    ("ControlRecord", ControlRecord(worker=W1, action=ControlAction.STOP, at_ms=WALL_MS, by="ann@here")),
    ("ControlRecord", ControlRecord(worker=W1, action=ControlAction.LEAVE_SOON, at_ms=WALL_MS, within_ms=9_000)),
    ("HaltRecord", HaltRecord(job="flights", halt=Halt.PAUSED, by="ann@here", at_ms=WALL_MS)),
    ("HaltRecord", HaltRecord(job="flights", halt=Halt.STOPPED, by="etl.stop (r1)", at_ms=WALL_MS)),
    ("RestartRecord", RestartRecord(job="flights", index=None, by="ann@here", at_ms=WALL_MS)),
    ("RestartRecord", RestartRecord(job="flights", index=-1, by="ann@here", at_ms=WALL_MS)),
    ("LevelsRecord", LevelsRecord(worker="*", levels={"jobs.flights": LogLevel.DEBUG}, by="ann@here", at_ms=WALL_MS)),
    (
        "TaskHaltRecord",
        TaskHaltRecord(job="flights", index=1, run_key="r1", fingerprint="abc", by="ann@here", at_ms=WALL_MS),
    ),
    ("RebalanceRecord", RebalanceRecord(by="ann@here", at_ms=WALL_MS)),
    ("TaskStatus", STREAM),
    ("TaskStatus", FINISHED),
    ("WorkerStatus", WORKER),
    ("GroupRecord", EXTENSIBLE),
    ("RebalanceEvent", RebalanceEvent.of(replace(EXTENSIBLE, given_up={}))),
    ("TaskEvent", TaskEvent(status=FINISHED, at_ms=WALL_MS + 6)),
    ("ActionEvent", ActionEvent(action="alter", subject="flights", by="ann@here", at_ms=WALL_MS, details="limit")),
    ("airflow_provider.triggers.worker.WorkerTrigger", LEARNS),
    ("airflow_provider.triggers.worker.WorkerTrigger", DECLARED),
    (
        "airflow_provider.triggers.group.GroupTrigger",
        JobCondition(job="flights", run_key="r1", goal=JobGoal.RUNNING, fingerprint="abc", since_ms=WALL_MS),
    ),
    ("airflow_provider.triggers.group.GroupTrigger", EpochCondition(at_least=3, converged=True)),
    ("airflow_provider.triggers.group.GroupTrigger", LeaveCondition(workers=(W1, W2))),
)
