"""Imported by the tests' Airflow: whoever ends a task there waits for longer than in production.

Airflow kills the process of a task 5 s after it has told it to end, and a worker waits a part of that until Airflow has
said why. On a busy machine neither may be enough, and then the worker has to assume that it comes back.
"""

from __future__ import annotations

from airflow.sdk.execution_time.supervisor import ActivitySubprocess
from waiting import SLOWNESS

from airflow_provider.operators.task_process import worker_run
from airflow_provider.worker import worker

_KILLED_AFTER_S = 30 * SLOWNESS
"""Not for ever: some tasks of the tests end only when they are killed."""

worker_run._CONFIRM_WITHIN_S = worker._FAREWELL_S = _KILLED_AFTER_S * 2 / 3  # type: ignore[misc]

_kill = ActivitySubprocess.kill
assert _kill.__defaults__ is not None
assert _kill.__defaults__.count(5.0) == 1, "how long it waits between the signals"
_kill.__defaults__ = tuple(_KILLED_AFTER_S if value == 5.0 else value for value in _kill.__defaults__)
