"""A group that is led, for tests of its leader.

It is written as ``{"w1": "r p", "w2": ""}``: w1 has two tasks, the first runs, the second waits for a slot. The
letters: r runs, s streams, p is pending, f has finished, x was stopped, ``.`` has no record yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from group_records import record_of

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.records import JobDefinition, PlanRecord, TaskKind, TaskState, TaskStatus
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.model import Epoch, TaskId, Tasks, WorkerId

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
        plan = PlanRecord.of(self.job, [{"i": i} for i in range(len(letters))], planned_by=WorkerId("w1"), at_ms=0)
        self.jobs = JobsSnapshot(jobs={"a": self.job}, plans={"a": plan})
        owned: dict[WorkerId, set[TaskId]] = {WorkerId(worker): set() for worker in workers}
        tasks: dict[TaskId, TaskStatus] = {}
        for index, (worker, letter) in enumerate(letters):
            task = TaskId("a", index)
            owned[WorkerId(worker)].add(task)
            if letter != ".":
                tasks[task] = TaskStatus(
                    task=task,
                    state=STATES[letter],
                    epoch=EPOCH,
                    worker=WorkerId(worker),
                    run_key="r1",
                    fingerprint=plan.fingerprints[index],
                    kind=TaskKind.STREAMING if letter == "s" else TaskKind.BATCH,
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
