"""Made-up histories of a group, as its events topic would tell them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group_records import record_of

from airflow_provider.assignment.model import Move
from airflow_provider.state.records import RebalanceEvent, TaskEvent, TaskState, TaskStatus
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
A0, A1 = TaskId("a", 0), TaskId("a", 1)
PENDING, STARTED, STOPPED = TaskState.PENDING, TaskState.RUNNING, TaskState.STOPPED
FINISHED, FAILED = TaskState.FINISHED, TaskState.FAILED


def step(
    at_ms: int, state: TaskState, task: TaskId = A0, worker: WorkerId = W1, *, began: int | None = None, **more: Any
) -> TaskEvent:
    """A task's step; ``began`` is when its present attempt started."""
    status = TaskStatus(
        task=task,
        state=state,
        worker=worker,
        started_at_ms=at_ms if state is STARTED and began is None else began,
        finished_at_ms=at_ms if state in (STOPPED, FINISHED, FAILED) else None,
        **{"epoch": Epoch(1), **more},
    )
    return TaskEvent(status=status, at_ms=at_ms)


def rebalance(
    epoch: int, *, revoked: dict[WorkerId, Tasks] | None = None, moves: Iterable[Move] = ()
) -> RebalanceEvent:
    record = record_of(
        {W1: frozenset({A0, A1}), W2: frozenset()},
        epoch=epoch,
        revoked=revoked or {},
        moves=tuple(moves),
        reason="w2 joined",
        at_ms=epoch * 1_000,
    )
    return RebalanceEvent.of(record)
