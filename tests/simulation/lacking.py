"""Workers that lack what tasks need: whatever they start fails. They stand back when they are to blame for it, as in
``worker/standing_back.py``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.values.model import TaskId, WorkerId

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World

FAILS_AFTER_MS = 20
FIRST_REST_MS = 60_000


class Lacking:
    """Which workers lack something, and what came of it.

    :ivar workers: on these, every task fails
    :ivar wrong: these tasks fail everywhere
    :ivar failures: how often each task has failed on each worker
    :ivar stood_back: how often each worker has stood back
    """

    def __init__(self, world: World) -> None:
        self.workers: frozenset[str] = frozenset()
        self.wrong: frozenset[TaskId] = frozenset()
        self.failures: defaultdict[TaskId, Counter[WorkerId]] = defaultdict(Counter)
        self.stood_back: Counter[WorkerId] = Counter()
        self._world = world

    def begins(self, process: Process, task: TaskId) -> None:
        """A worker starts a task."""
        if (process.worker in self.workers or task in self.wrong) and not task.is_planner:
            process.tasks.fail_here(task, after_ms=FAILS_AFTER_MS)

    def failed(self, process: Process, task: TaskId) -> None:
        self.failures[task][process.worker] += 1

    def blamed(self, process: Process, why: str) -> None:
        """A worker is to blame, and comes back after a pause."""
        world, worker = self._world, process.worker
        rest_ms = FIRST_REST_MS << self.stood_back[worker]
        self.stood_back[worker] += 1
        world.note(f"{process.name:8} ---- stands back for {rest_ms} ms: {why}")
        process.leave(Absence(left=LeaveReason.STOPPED), why)

        def comes_back() -> None:
            world.start(worker)

        world.clock.after(rest_ms, comes_back)
