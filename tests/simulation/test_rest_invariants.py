"""What a rule of a group at rest lets pass, and what not."""

from __future__ import annotations

import pytest
from simulation.invariants import BrokenError
from simulation.rest_invariants import the_spread_is_at_most_one

from airflow_provider.values.model import TaskId, Tasks

SLOTS = {"w1": 8, "w2": 8, "w3": 2, "w4": 1, "w5": 1}


def shares(*numbers: int, batch: dict[str, int]) -> dict[str, Tasks]:
    """So many streams of each worker, and besides so many batch tasks."""
    streams = {
        worker: frozenset(TaskId("stream", 10 * place + index) for index in range(number))
        for place, (worker, number) in enumerate(zip(SLOTS, numbers, strict=True))
    }
    return {
        worker: tasks | {TaskId("batch", n) for n in range(batch.get(worker, 0))} for worker, tasks in streams.items()
    }


def test_streams_that_stay_may_leave_a_worker_with_too_few_tasks() -> None:
    seven_streams = shares(2, 2, 1, 1, 1, batch={"w1": 1})
    the_spread_is_at_most_one(seven_streams, SLOTS, {"stream"})
    with pytest.raises(BrokenError, match=r"tasks: .*'w2': 2"):
        the_spread_is_at_most_one(seven_streams, SLOTS)


def test_what_could_move_does() -> None:
    with pytest.raises(BrokenError, match=r"tasks: .*'w1': 4, 'w2': 2"):
        the_spread_is_at_most_one(shares(2, 2, 1, 1, 1, batch={"w1": 2}), SLOTS, {"stream"})


def test_a_worker_full_of_other_tasks_leaves_its_part_to_others() -> None:
    without_w2 = shares(4, 0, 1, 1, 1, batch={})
    the_spread_is_at_most_one(without_w2, SLOTS, full={"w2"})
    with pytest.raises(BrokenError, match=r"tasks: .*'w2': 0"):
        the_spread_is_at_most_one(without_w2, SLOTS)
