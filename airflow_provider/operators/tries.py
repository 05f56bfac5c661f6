"""How long Airflow takes to try a task again, as far as this is known while the task runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.assignors.model import Absence, LeaveReason
from airflow_provider.assignors.policy import LONGEST_DELAY_MS
from airflow_provider.common.airflow_names import conf
from airflow_provider.common.task_instance import OVER
from airflow_provider.worker.ending import KILLED

_MARGIN_MS: Final = 60_000
"""From when a task may be tried again until its worker has joined: a busy scheduler, a new process, a JVM."""

RUNNING: Final = "running"
"""The state of a task instance that nobody has marked or cleared."""

_A_DAY_S: Final = 24 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What happens to a worker after a try of its task, however the try ends.

    :param again: whether Airflow tries it again if it fails
    :param wait_ms: in what time at most it is back if it is tried again; None: not known
    """

    again: bool
    wait_ms: int | None

    @property
    def returns_ms(self) -> int | None:
        """In what time at most it is back if its process is lost; 0: never."""
        return self.wait_ms if self.again else 0

    def ended_by_airflow(self, state: str | None) -> Absence:
        """:param state: of the task instance, which says why: ``restarting`` if a user has cleared it"""
        if state in OVER:
            return KILLED
        return self.interrupted() if state == RUNNING else self._restarting()

    def interrupted(self) -> Absence:
        """By its own time limit, or whatever else counts as a failure."""
        return self._restarting() if self.again else KILLED

    def _restarting(self) -> Absence:
        return Absence(left=LeaveReason.RESTARTING, returns_ms=self.wait_ms)


def tries_of(operator: Any, ti: Any) -> Tries:
    """As Airflow decides it when a try has failed (``TaskInstance.next_retry_datetime``).

    :param operator: with its retry parameters
    :param ti: the task instance, with the number of this try and how many may fail
    """
    again = bool(ti.max_tries) and ti.try_number <= ti.max_tries
    return Tries(again=again, wait_ms=_longest_wait_ms(operator, ti.try_number))


def _longest_wait_ms(operator: Any, try_number: int) -> int | None:
    """With exponential backoff Airflow takes up to twice the power, by the hash of the try."""
    if getattr(operator, "retry_policy", None) is not None:
        return None  # it decides when the try has failed
    wait_s: float = operator.retry_delay.total_seconds()
    backoff = operator.retry_exponential_backoff
    multiplier = 2.0 if backoff is True else float(backoff)  # before Airflow 3.2 it was a flag
    if multiplier not in (0.0, 1.0):
        longest_s = conf.getint("core", "max_task_retry_delay", fallback=_A_DAY_S)
        try:
            wait_s = min(2 * max(1, math.ceil(wait_s * multiplier ** (try_number - 1))), longest_s)
        except OverflowError:
            wait_s = longest_s
        if operator.max_retry_delay:
            wait_s = min(wait_s, operator.max_retry_delay.total_seconds())
    return min(math.ceil(wait_s * 1000) + _MARGIN_MS, LONGEST_DELAY_MS)
