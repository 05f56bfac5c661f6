"""The Spark of a process, which may end under its tasks while the process lives: the JVM crashes, or is killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from simulation import spark_invariants

from airflow_provider.spark.local.spark_state import LOOK_S
from airflow_provider.spark.runner import SparkEnded
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from simulation.process import Process

_LOOK_MS: Final = round(LOOK_S * 1_000)
_HANGS_MS: Final = 3 * _LOOK_MS
"""How long the code of a task takes at most to notice that its Spark has ended."""
STARTS_MS: Final = 3_000


class Spark:
    """Stands for a real worker's Spark, and for what ``spark/runners/attached_tasks/attached.py`` tells of its end. The
    next one starts with the next attempt, if it does.

    :param feed: feeds the executor's machine an event of this type with these fields
    :ivar absent: it has not started for an attempt, although the worker may not have noticed yet
    """

    def __init__(self, process: Process, feed: Callable[..., None]) -> None:
        self._process = process
        self._feed = feed
        self._number = 1
        self._up = False
        self.absent = False
        self._there_at = 0
        self._on_it: set[TaskId] = set()

    def begins(self, task: TaskId) -> int | None:
        """An attempt begins on it.

        :return: how long it waits until Spark has started; None: Spark does not start
        """
        self.absent = not self.comes_up()
        if self.absent:
            self._there_at = self._process.world.clock.now + STARTS_MS
            return None
        self._on_it.add(task)
        return max(0, self._there_at - self._process.world.clock.now)

    def comes_up(self) -> bool:
        """Start it, unless it is there.

        :return: whether it is there then
        """
        self._up = self._up or self._process.world.lacking.spark_starts(self._process.worker)
        return self._up

    @property
    def starts(self) -> bool:
        """Whether attempts still wait for it, perhaps in vain."""
        return self._process.world.clock.now <= self._there_at

    def runs(self, task: TaskId) -> bool:
        """Whether the task runs on the present one."""
        return task in self._on_it and task in self._process.running

    def end(self, culprit: TaskId | None = None) -> bool:
        """It ends. The worker looks at intervals whether it is there; the code of some tasks notices that before, and
        that of others much later.

        :param culprit: the task that ends it; None: nothing that its worker runs
        :return: whether it was there
        """
        process, clock = self._process, self._process.world.clock
        if clock.now < self._there_at:
            return False
        process.world.note(f"{process.name:8} ---- its Spark is ended by {culprit or 'chance'}")
        tasks, ended = process.tasks, self._number
        lost = {task: tasks.start_of(task) for task in sorted(self._on_it) if self.runs(task)}
        self._on_it.clear()
        self._up, self._number, self._there_at = False, ended + 1, clock.now + STARTS_MS
        notice_warm_ups = tasks.warm_ups.lose(ended)
        for task in lost:
            fails = partial(
                spark_invariants.nobody_fails_for_an_end_of_spark_that_may_be_due_to_others,
                task,
                culprit,
                lost.keys() - {task},
            )
            tasks.lose_spark(task, spark=ended, after_ms=process.rng.randint(0, _HANGS_MS), fails=fails)

        def look() -> None:
            told = frozenset(task for task, start in lost.items() if tasks.start_of(task) == start)
            going_on = frozenset(task for task in told if tasks.goes_on(task))
            if going_on:
                self._feed(SparkEnded, spark=ended, tasks=going_on)
            notice_warm_ups()

        clock.after(process.rng.randint(0, _LOOK_MS), lambda: process.when_awake(look))
        return True
