"""A group that is led, for tests of its leader.

It is written as ``{"w1": "r p", "w2": ""}``: w1 has two tasks, the first runs, the second waits for a slot. The
letters: r runs, s streams, p is pending, f has finished, x was stopped, ``.`` has no record yet. ``r3`` takes 3 slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from group_records import record_of

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.group.classic.wire.v1 import encode_metadata
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind, TaskState, TaskStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import (
    Assignment,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)

STATES = {
    "r": TaskState.RUNNING,
    "s": TaskState.RUNNING,
    "p": TaskState.PENDING,
    "f": TaskState.FINISHED,
    "x": TaskState.STOPPED,
}
EPOCH = Epoch(5)


class Group:
    """A group after a round in which everything configured was assigned."""

    def __init__(self, workers: Mapping[str, str], **record: Any) -> None:
        self.job = JobDefinition(name="a", entry_point="m:f", max_tasks=5_000, run_key="r1")
        letters = [(worker, letter) for worker, tasks in workers.items() for letter in tasks.split()]
        configs = [{"i": i, "slots": int(letter[1:] or 1)} for i, (_, letter) in enumerate(letters)]
        plan = PlanRecord.of(self.job, configs, planned_by=WorkerId("w1"), at_ms=0)
        self.jobs = JobsSnapshot(jobs={"a": self.job}, plans={"a": plan})
        owned: dict[WorkerId, set[TaskId]] = {WorkerId(worker): set() for worker in workers}
        tasks: dict[TaskId, TaskStatus] = {}
        for index, (worker, letter) in enumerate(letters):
            task = TaskId("a", index)
            owned[WorkerId(worker)].add(task)
            if letter[0] != ".":
                tasks[task] = TaskStatus(
                    task=task,
                    state=STATES[letter[0]],
                    epoch=EPOCH,
                    worker=WorkerId(worker),
                    run_key="r1",
                    fingerprint=plan.fingerprints[index],
                    kind=TaskKind.STREAMING if letter[0] == "s" else TaskKind.BATCH,
                )
        assignment = {worker: frozenset(share) for worker, share in owned.items()}
        self.status = StatusSnapshot(group=replace(record_of(assignment), **record), tasks=tasks)

    @property
    def record(self) -> ClassicRecord:
        assert isinstance(self.status.group, ClassicRecord)
        return self.status.group

    @property
    def running(self) -> Tasks:
        return frozenset(task for task, told in self.status.tasks.items() if told.state is TaskState.RUNNING)


def member(worker: WorkerId, owned: Tasks, *, offset: int = 0) -> JoinedMember:
    state = WorkerState(
        version=1, url="", config_offset=ConfigOffset(offset), assignment=Assignment(version=1, assigned=owned)
    )
    return JoinedMember(member_id=MemberId(worker), instance_id=worker, metadata=encode_metadata(state))


def record_after(
    group: Group,
    *,
    reason: str,
    now_ms: int = 0,
    joins: tuple[WorkerId, ...] = (),
    members: tuple[WorkerId, ...] | None = None,
) -> ClassicRecord:
    """The next round, which its leader w1 joined for ``reason``."""
    last = group.record
    present = (*last.members, *joins) if members is None else members
    unfinished = {task for task, told in group.status.tasks.items() if not told.state.final}
    answer = lead(
        Call(
            generation=GenerationId(last.generation + 1),
            protocol=SubProtocol.SESSIONED,
            leader=MemberId("w1"),
            last_completed=last.generation,
            members=tuple(member(worker, last.owned_by(worker)) for worker in present),
            configured=frozenset(unfinished),
            config_offset=ConfigOffset(0),
            last_record=last,
            policy=Deferred(),
            now_ms=now_ms,
            reason=reason,
            revocation_rank=dict.fromkeys(group.running, 2),
        )
    )
    assert answer.record is not None
    return answer.record
