"""Workers that lack what tasks need: whatever they start fails, or their Spark does not start. They stand back, as in
``worker/standing_back.py``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.values.model import TaskId, WorkerId

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World

    from airflow_provider.worker.tasks.state import Execution

FAILS_AFTER_MS = 20
FIRST_REST_MS = 60_000
FIRST_WAIT_MS: Final = 5_000
LONGEST_WAIT_MS: Final = 60_000


class Lacking:
    """Which workers lack something, and what came of it.

    :ivar workers: on these, every task fails
    :ivar wrong: these tasks fail everywhere
    :ivar failures: how often each task has failed on each worker
    :ivar stood_back: how often each worker has stood back
    :ivar spark_from: by worker, from when on its Spark starts again, in the world's time; infinite: never
    """

    def __init__(self, world: World) -> None:
        self.workers: frozenset[str] = frozenset()
        self.wrong: frozenset[TaskId] = frozenset()
        self.failures: defaultdict[TaskId, Counter[WorkerId]] = defaultdict(Counter)
        self.stood_back: Counter[WorkerId] = Counter()
        self.spark_from: dict[str, float] = {}
        self._world = world

    def begins(self, process: Process, task: TaskId) -> None:
        """A worker starts a task."""
        if (process.worker in self.workers or task in self.wrong) and not task.is_planner:
            process.tasks.fail_here(task, after_ms=FAILS_AFTER_MS)

    def failed(self, process: Process, task: TaskId) -> None:
        self.failures[task][process.worker] += 1

    def stands_back(self, process: Process, execution: Execution) -> None:
        if execution.unable:
            self._await_spark(process, execution.unable)
        else:
            self._rest(process, execution.blamed)

    def _rest(self, process: Process, why: str) -> None:
        """A worker is to blame, and comes back after a pause."""
        world, worker = self._world, process.worker
        rest_ms = FIRST_REST_MS << self.stood_back[worker]
        self.stood_back[worker] += 1
        world.note(f"{process.name:8} ---- stands back for {rest_ms} ms: {why}")
        process.leave(Absence(left=LeaveReason.STOPPED), why)

        def comes_back() -> None:
            world.start(worker)

        world.clock.after(rest_ms, comes_back)

    # ---- a Spark that does not start

    def lack_spark(self, worker: str, ms: int | None) -> None:
        """From now on, the worker's Spark does not start.

        :param ms: for how long; None: for ever
        """
        self.spark_from[worker] = math.inf if ms is None else self._world.clock.now + ms
        self._world.note(f"{worker:8} ---- its Spark does not start {'any more' if ms is None else f'for {ms} ms'}")

    def spark_starts(self, worker: str) -> bool:
        return self._world.clock.now >= self.spark_from.get(worker, 0)

    def is_without_spark(self, worker: str) -> bool:
        """Whether its Spark never starts again."""
        return self.spark_from.get(worker) == math.inf

    @property
    def at_large(self) -> bool:
        """Whether a worker is in the group that is about to stand back for its Spark."""
        return any(process.tasks.spark.absent for process in self._world.members)

    def make_peace(self) -> None:
        """What does not start for a while starts."""
        for worker, at in self.spark_from.items():
            if at != math.inf:
                self.spark_from[worker] = 0

    def _await_spark(self, process: Process, why: str) -> None:
        """The worker leaves, tries with growing pauses whether Spark starts, and joins again when it does."""
        self.stood_back[process.worker] += 1
        self._world.note(f"{process.name:8} ---- stands back until its Spark starts: {why}")

        def leave() -> None:
            if process.in_group and process.state.phase is not Phase.LEAVING:
                process.leave(Absence(left=LeaveReason.STOPPED), why)

        self._world.clock.after(0, lambda: process.when_awake(leave))
        self._try_again(process, FIRST_WAIT_MS)

    def _try_again(self, left: Process, wait_ms: int) -> None:
        world, worker = self._world, left.worker
        if self.is_without_spark(worker):
            return

        def tries() -> None:
            there = world.live.get(worker)
            if there is left or not self.spark_starts(worker):
                self._try_again(left, min(2 * wait_ms, LONGEST_WAIT_MS))
            elif there is None:  # otherwise somebody else has started it meanwhile
                world.start(worker, protocol=left.settings.protocol)

        world.later(worker, wait_ms, tries)
