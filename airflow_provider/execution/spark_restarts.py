"""When a worker starts tasks again after its Spark has ended, and which of them are to blame.

Nobody can see which task has ended a JVM that several tasks shared. So at first the end counts for all tasks that were
running, and all start again. A task that would fail with the next end of Spark gets a trial: such tasks run one after
the other, each until it has ended or has run for a minute. If Spark ends during a trial, this counts only for the task
on trial. So a task that ends Spark soon after its start does not make others fail. If it ends Spark later, it can't be
told apart from the tasks beside it, and they fail together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.execution.events import SparkLost, WarmUpLost
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks
from airflow_provider.protocol.replacing import replaced
from airflow_provider.records import TaskFailure, TaskKind
from airflow_provider.runs.runs import RunState, TaskRun

TRIAL_MS: Final = 60_000
_FIRST_WAIT_MS: Final = 1_000
_LONGEST_WAIT_MS: Final = 60_000
_CALM_MS: Final = 600_000
"""After this time without an end of Spark, the wait after the next end is short again."""
_FORGIVEN_MS: Final = 3_600_000
"""Earlier ends of Spark no longer count for a stream that has run for this long: it may run for months."""
_FORGIVEN_ON_SERVER_MS: Final = 600_000
"""The same for a stream on a server. A server runs the streams of many workers, and people restart it: three restarts
in an hour must not fail all of them."""
_LOOK_AGAIN_MS: Final = 1_000


class SparkRestarts:
    """The ends ("deaths") of one worker's Spark.

    :param max_deaths: a task fails when Spark has ended this often while it ran
    """

    def __init__(self, max_deaths: int) -> None:
        self._max_deaths = max_deaths
        self._last_chance: set[TaskId] = set()
        self._on_trial_at: dict[int, Tasks] = {}
        self._in_a_row = 0
        self._last_ms: int | None = None
        self._hold_until_ms = 0

    def admit(self, run: TaskRun) -> None:
        """Note a task that this worker has got, in case that Spark has ended while it ran, here or elsewhere."""
        if 0 < run.spark_deaths >= self._max_deaths - 1:
            self._last_chance.add(run.task)

    def lost(self, runs: Mapping[TaskId, TaskRun], event: SparkLost) -> TaskRun:
        """The task after its Spark has ended."""
        wall_ms = event.wall_ms
        self.wait_after(runs, event)
        run = runs[event.task]
        on_trial = self._on_trial_at[event.spark]
        if run.started_at_ms is None or (on_trial and run.task not in on_trial):
            return replaced(run, error=event.failure)
        forgiven_ms = _FORGIVEN_ON_SERVER_MS if run.detached else _FORGIVEN_MS
        forgiven = run.kind is TaskKind.STREAMING and wall_ms - run.started_at_ms >= forgiven_ms
        deaths = 1 if forgiven else run.spark_deaths + 1
        run = replaced(run, spark_deaths=deaths, error=self._failure(deaths, event))
        self.admit(run)
        return run

    def wait_after(self, runs: Mapping[TaskId, TaskRun], event: SparkLost | WarmUpLost) -> None:
        """A Spark has ended: start nothing for a while."""
        if event.spark not in self._on_trial_at:
            self._on_trial_at[event.spark] = self._on_trial(runs, event.wall_ms)
            self._wait(event.now_ms)

    def trial_ms(self, runs: Mapping[TaskId, TaskRun], *, now_ms: int, wall_ms: int) -> int | None:
        """When to check again whether a trial is over (monotonic milliseconds); None: no task is on trial."""
        return now_ms + _LOOK_AGAIN_MS if self._on_trial(runs, wall_ms) else None

    def condemns(self, run: TaskRun) -> bool:
        """Whether Spark has ended too often while this task ran."""
        return run.spark_deaths >= self._max_deaths

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may start because Spark has just ended."""
        return now_ms < self._hold_until_ms

    def blocked(self, runs: Mapping[TaskId, TaskRun], others: Tasks = NO_TASKS, *, now_ms: int, wall_ms: int) -> Tasks:
        """The tasks that can't start, because they have to wait for a trial, or for other reasons.

        :param others: those with other reasons
        """
        waiting = self._in(runs, RunState.WAITING)
        if not waiting:
            return others
        if self._on_trial(runs, wall_ms):
            return others.union(run.task for run in waiting)
        ready = [run for run in waiting if run.task not in others and run.not_before_ms <= now_ms]
        first = min(ready, key=lambda run: (run.spark_deaths, run.task), default=None)
        return others.union(run.task for run in waiting if run is not first)

    def due_ms(
        self, runs: Mapping[TaskId, TaskRun], other_ms: int | None = None, *, now_ms: int, wall_ms: int
    ) -> int | None:
        """When :meth:`holds` and :meth:`blocked` may change (monotonic milliseconds).

        :param other_ms: when to look again for another reason, if that is sooner
        """
        due_ms = None
        if self.holds(now_ms):
            due_ms = self._hold_until_ms
        elif self._in(runs, RunState.WAITING):
            due_ms = self.trial_ms(runs, now_ms=now_ms, wall_ms=wall_ms)
        return min((due for due in (due_ms, other_ms) if due is not None), default=None)

    def _wait(self, now_ms: int) -> None:
        calm = self._last_ms is not None and now_ms - self._last_ms >= _CALM_MS
        self._in_a_row = 1 if calm else self._in_a_row + 1
        self._last_ms = now_ms
        longer = min(self._in_a_row - 1, 10)
        self._hold_until_ms = now_ms + min(_FIRST_WAIT_MS << longer, _LONGEST_WAIT_MS)

    def _in(self, runs: Mapping[TaskId, TaskRun], state: RunState) -> list[TaskRun]:
        if not self._last_chance:
            return []
        self._last_chance = {task for task in self._last_chance if task in runs}
        return [runs[task] for task in self._last_chance if runs[task].state is state]

    def _on_trial(self, runs: Mapping[TaskId, TaskRun], wall_ms: int) -> Tasks:
        started = self._in(runs, RunState.STARTED)
        return frozenset(
            run.task for run in started if run.started_at_ms is None or abs(wall_ms - run.started_at_ms) < TRIAL_MS
        )

    def _failure(self, deaths: int, event: SparkLost) -> TaskFailure:
        times = f"{deaths} times" if deaths > 1 else "once"
        message = f"Spark has ended {times} while this task ran"
        if deaths >= self._max_deaths:
            message += (
                ", so the task counts as the reason and is not tried again: give it less to do, or Spark more memory"
                f" (max_spark_deaths={self._max_deaths})"
            )
        return TaskFailure.of(f"{message}. The last time: {event.failure.message}", event.failure.traceback)
