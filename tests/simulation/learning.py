"""The learner tasks of a process: warm-ups that take time, and its worker's reports of their progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from simulation.sparks import STARTS_MS

from airflow_provider.group.classic.member.events import LearningProgressed
from airflow_provider.spark import runner
from airflow_provider.state.records import WorkerPhase
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks

if TYPE_CHECKING:
    from simulation.process import Process

_PARTS: Final = 4
_REPORT_MS: Final = 1_000
"""The least time between reports, except when a task is ready, as in ``worker/reporting/learning_report.py``."""


class WarmUps:
    """Stands for a real worker's runner: each warm-up completes after a while, or fails, or its Spark does not start.

    :param feed: feeds the executor's machine an event of this type with these fields
    """

    def __init__(self, process: Process, feed: Callable[..., None]) -> None:
        self._process = process
        self._feed = feed
        self._under_way: dict[TaskId, int] = {}
        self._progress: dict[TaskId, float] = {}
        self._lost: set[TaskId] = set()
        self._number = 0
        self._stuck_until = 0

    def start(self, task: TaskId) -> None:
        process, world = self._process, self._process.world
        self._number += 1
        self._under_way[task] = self._number
        self._lost.discard(task)
        if not process.tasks.spark.comes_up():
            self._wait_in_vain(task, self._number)
            return
        takes_ms = process.rng.randint(*world.warm_ms)
        fails = process.rng.random() < world.warm_up_fails
        self._go_on(task, self._number, part=1, part_ms=takes_ms // _PARTS, fails=fails)

    def stop(self, task: TaskId) -> None:
        self.take(task)

    def take(self, task: TaskId) -> float:
        """An attempt takes over what was made ready.

        :return: its progress, from 0 to 1
        """
        self._under_way.pop(task, None)
        self._lost.discard(task)
        return self._progress.pop(task, 0.0)

    def complete(self) -> None:
        """Complete all running warm-ups."""
        for task in sorted(self._under_way):
            self._ready(task)

    def fail(self) -> bool:
        """Fail all running warm-ups.

        :return: whether there were any
        """
        failing = sorted(self._under_way)
        for task in failing:
            self._failed(task)
        return bool(failing)

    def stick(self, ms: int) -> bool:
        """Stop the progress of all warm-ups for this time.

        :return: whether there are any
        """
        self._stuck_until = self._process.world.clock.now + ms
        return bool(self._under_way)

    def lose(self, spark: int) -> Callable[[], None]:
        """Their Spark has ended.

        :return: tells of it, when the worker notices that
        """
        lost = self._under_way.keys() | self._progress.keys()
        self._under_way.clear()
        self._progress.clear()
        self._lost |= lost

        def notice() -> None:
            for task in sorted(lost & self._lost):
                self._lost.discard(task)
                self._feed(runner.WarmUpLost, task=task, spark=spark)

        return notice

    def end(self) -> None:
        """End them with their process."""
        self._under_way.clear()

    def _go_on(self, task: TaskId, number: int, *, part: int, part_ms: int, fails: bool) -> None:
        process, clock = self._process, self._process.world.clock

        def so_far() -> None:
            if self._under_way.get(task) != number:
                return
            if clock.now < self._stuck_until:
                clock.after(self._stuck_until - clock.now, lambda: process.when_awake(so_far))
            elif fails and part > 1:
                self._failed(task)
            elif part == _PARTS:
                self._ready(task)
            else:
                self._progress[task] = part / _PARTS
                self._feed(runner.WarmUpProgressed, task=task, progress=part / _PARTS)
                self._go_on(task, number, part=part + 1, part_ms=part_ms, fails=fails)

        clock.after(part_ms, lambda: process.when_awake(so_far))

    def _wait_in_vain(self, task: TaskId, number: int) -> None:
        process = self._process

        def is_not_there() -> None:
            if self._under_way.get(task) == number:
                del self._under_way[task]
                self._feed(runner.NoSparkToWarmUp, task=task, error="Spark does not start")

        process.world.clock.after(STARTS_MS, lambda: process.when_awake(is_not_there))

    def _ready(self, task: TaskId) -> None:
        del self._under_way[task]
        self._progress[task] = 1.0
        self._feed(runner.WarmUpReady, task=task)

    def _failed(self, task: TaskId) -> None:
        del self._under_way[task]
        self._progress.pop(task, None)
        self._feed(runner.WarmUpFailed, task=task, error="what it reads is not there")


class Report:
    """Stands for a real worker's ``worker/reporting/learning_report.py``: first the worker's record, then its
    membership.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._said: Mapping[TaskId, float] = {}
        self._said_failed = NO_TASKS
        self._not_before = 0
        self._armed = False

    def look(self) -> None:
        """Something may have changed: report ready tasks now, and the rest when it is time."""
        progress, now = self._process.tasks.learning, self._process.world.clock.now
        failed = self._process.tasks.failed
        if (progress, failed) == (self._said, self._said_failed) or not self._process.alive:
            return
        ready = any(far == 1.0 and self._said.get(task) != 1.0 for task, far in progress.items())
        if ready or failed - self._said_failed or now >= self._not_before:
            self._say(dict(progress), failed)
        elif not self._armed:
            self._armed = True
            self._process.world.clock.after(self._not_before - now, lambda: self._process.when_awake(self._look_again))

    def _look_again(self) -> None:
        self._armed = False
        self.look()

    def _say(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        process = self._process
        self._said, self._said_failed = progress, failed
        self._not_before = process.world.clock.now + _REPORT_MS

        def stored() -> None:
            process.feed(LearningProgressed(now_ms=process.now, progress=progress, failed=failed))

        process.say_of_itself(WorkerPhase.STABLE, stored)
