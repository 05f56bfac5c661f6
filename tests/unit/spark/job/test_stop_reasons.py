"""What a task knows of why it is told to stop."""

from __future__ import annotations

import pytest

from airflow_provider.group.held_tasks import StopReason
from airflow_provider.spark.job import TaskContext
from airflow_provider.spark.job.fencing import MOVES, AttemptGuard, EndlessLease


def task_with(guard: AttemptGuard) -> TaskContext:
    return TaskContext(job="etl", index=0, config={}, epoch=1, checkpoint_location="", guard=guard)


def test_what_a_membership_stops_is_to_go_on_elsewhere() -> None:
    assert {reason.value for reason in StopReason} <= MOVES


@pytest.mark.parametrize(
    ("reason", "moves"),
    [
        ("revoked", True),
        ("the worker is closing", True),
        ("it is no longer configured", False),
        ("its job is paused", False),
    ],
)
def test_a_task_knows_whether_it_moves(reason: str, moves: bool) -> None:
    guard = AttemptGuard(EndlessLease())
    task = task_with(guard)
    assert not task.moves
    guard.stop_soon(reason)
    assert task.moves is moves


def test_one_that_nobody_stops_does_not_move() -> None:
    assert not TaskContext(job="etl", index=0, config={}, epoch=1, checkpoint_location="").moves
