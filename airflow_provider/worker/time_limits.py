"""How long an attempt may take. It counts from the call of the job's own code: for Spark a task may wait."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.group.timers import Timer, call_at
from airflow_provider.kafka.clock import now_ms
from airflow_provider.protocol.model import TaskId
from airflow_provider.worker.runs import TaskRun


class TimeLimits:
    """The limits of what runs in one worker, a timer each. Planners have none.

    :param over: is told once when an attempt's time is over, and what to say of it
    """

    def __init__(self, over: Callable[[TaskId, str], None]) -> None:
        self._over = over
        self._began_ms: dict[TaskId, int] = {}
        self._timers: dict[TaskId, Timer] = {}

    def began(self, run: TaskRun) -> None:
        """The job's code was called just now."""
        if not run.task.is_planner:
            self._began_ms[run.task] = now_ms()
            self.renew(run)

    def renew(self, run: TaskRun) -> None:
        """Its job may have another limit by now; for an attempt that has not begun there is none yet."""
        self._disarm(run.task)
        limit_ms = run.work.definition.timeout_ms
        if run.task in self._began_ms and limit_ms is not None:
            reason = f"stopped after task_timeout of {limit_ms / 1000:g} s"
            self._timers[run.task] = call_at(self._began_ms[run.task] + limit_ms, lambda: self._over(run.task, reason))

    def ended(self, task: TaskId) -> None:
        """Also of an attempt that had no limit, or has not begun."""
        self._began_ms.pop(task, None)
        self._disarm(task)

    def close(self) -> None:
        for task in list(self._timers):
            self.ended(task)

    def _disarm(self, task: TaskId) -> None:
        timer = self._timers.pop(task, None)
        if timer is not None:
            timer.cancel()
