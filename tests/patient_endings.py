"""Imported by the tests' Airflow: whoever ends a task there waits for what is true, however slow the machine is.

Airflow kills the process of a task 5 s after it has told it to end, and a worker waits a part of that until Airflow has
said why. On a busy machine neither may be enough, and then the worker has to assume that it comes back.
"""

from __future__ import annotations

from airflow.sdk.execution_time.supervisor import ActivitySubprocess
from waiting import DEADLINE_S

from airflow_provider.operators import worker_run
from airflow_provider.worker import worker

worker_run._SURE_WITHIN_S = worker._FAREWELL_S = DEADLINE_S  # type: ignore[misc]

_kill = ActivitySubprocess.kill
assert _kill.__defaults__ is not None
assert _kill.__defaults__.count(5.0) == 1, "how long it waits between the signals"
_kill.__defaults__ = tuple(2 * DEADLINE_S if value == 5.0 else value for value in _kill.__defaults__)
