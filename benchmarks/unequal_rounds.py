"""A full round of the assignor where workers differ in slots, beside one where all have the same: does a task cost
more, and does that grow with the group? Up to a million tasks.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import Deferred
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, WorkerId

_SIZES: Final = ((100, 9), (1_000, 5), (10_000, 3))
"""Workers, and how many rounds of which the fastest counts."""
_TASKS: Final = 100
"""For each worker."""
_SLOTS: Final = (20, 40, 80, 160)


def run(_folder: Path) -> Mapping[str, Any]:
    """Print and return milliseconds of a core for a round."""
    figures = {}
    for workers, times in _SIZES:
        names = [WorkerId(f"w{number:05}") for number in range(workers)]
        tasks = frozenset(TaskId(f"job{job:03}", index) for job in range(_TASKS) for index in range(workers))
        equal_ms = _fastest_ms(names, tasks, dict.fromkeys(names, _TASKS), times)
        unequal_ms = _fastest_ms(names, tasks, {name: random.choice(_SLOTS) for name in names}, times)
        figures[f"{len(tasks)} tasks"] = {"equal_ms": equal_ms, "unequal_ms": unequal_ms}
        print(
            f"{workers} workers, {len(tasks)} tasks: {unequal_ms:.1f} ms with unequal slots, {equal_ms:.1f} ms with"
            f" equal ones (ratio {unequal_ms / equal_ms:.2f}); a task costs {unequal_ms * 1_000 / len(tasks):.2f} µs",
            flush=True,
        )
    return figures


def _fastest_ms(workers: list[WorkerId], tasks: frozenset[TaskId], slots: Mapping[WorkerId, int], times: int) -> float:
    new = Round(
        now_ms=1_000,
        generation=GenerationId(1),
        last_completed=GenerationId(-1),
        configured=tasks,
        owned=dict.fromkeys(workers, NO_TASKS),
        costs=Costs(slots=slots),
    )
    took_s = []
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        assign(new, Memory(), policy=Deferred())
        took_s.append(time.process_time() - began)
    return min(took_s) * 1_000
