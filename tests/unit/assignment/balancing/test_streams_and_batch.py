"""Streams beside batch tasks that are shared out by cost: they want the same slots."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_provider.assignment.cooperative import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

A, B = WorkerId("a"), WorkerId("b")
STREAM = frozenset([TaskId("stream", 0)])
LONG, SHORT = TaskId("batch", 0), TaskId("batch", 1)
BATCH = frozenset([LONG, SHORT])
COSTS = {LONG: 60.0, SHORT: 50.0}


def started(owned: Mapping[WorkerId, Tasks], slots: Mapping[WorkerId, int], new: Tasks) -> Mapping[WorkerId, Tasks]:
    """What starts in a round, if all runs that is owned."""
    running = NO_TASKS.union(*owned.values())
    now = Round(
        now_ms=0,
        generation=GenerationId(2),
        last_completed=GenerationId(1),
        configured=running | new,
        owned=owned,
        revocation_rank=dict.fromkeys(running, 1),
        costs=Costs(of=COSTS, left={task: COSTS[task] for task in running & BATCH}, slots=slots),
    )
    return assign(now, Memory(), policy=IMMEDIATE).assigned


@pytest.mark.parametrize("slots", [{A: 2, B: 2}, {}], ids=["equal", "not known"])
def test_a_stream_does_not_wait_behind_batch_tasks_beside_an_empty_worker(slots: Mapping[WorkerId, int]) -> None:
    assert started({A: BATCH, B: NO_TASKS}, slots, STREAM) == {A: NO_TASKS, B: STREAM}


def test_batch_tasks_leave_room_for_a_stream_that_is_as_new() -> None:
    assert started({A: NO_TASKS, B: NO_TASKS}, {A: 1, B: 1}, STREAM | BATCH) == {A: STREAM, B: BATCH}
