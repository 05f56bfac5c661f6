"""How soon Airflow tries a task again, as far as this is known while the task runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import LONGEST_DELAY_MS
from airflow_provider.integration.airflow_api.airflow_names import conf
from airflow_provider.integration.airflow_api.task_instance import OVER
from airflow_provider.worker.endings.ending import KILLED

_MARGIN_MS: Final = 60_000
"""The time from when a task may be tried again until its worker has joined: a busy scheduler, a new process, a JVM."""

RUNNING: Final = "running"
"""The state of a task instance that no user has marked or cleared."""

_A_DAY_S: Final = 24 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """Whether and when a worker returns after a try of its task.

    :param again: whether Airflow tries the task again if it fails
    :param wait_ms: in how many milliseconds at most it returns if the task is tried again; None: unknown
    """

    again: bool
    wait_ms: int | None

    @property
    def returns_ms(self) -> int | None:
        """In how many milliseconds at most it returns if its process is lost; 0: never; None: unknown."""
        return self.wait_ms if self.again else 0

    def ended_by_airflow(self, state: str | None) -> Absence:
        """The absence to record when Airflow ends the task.

        :param state: of the task instance, which tells why: ``restarting`` if a user has cleared it
        """
        if state in OVER:
            return KILLED
        return self.interrupted() if state == RUNNING else self._restarting()

    def interrupted(self) -> Absence:
        """The absence to record when the task ends by its time limit, or in another way that counts as a failure."""
        return self._restarting() if self.again else KILLED

    def _restarting(self) -> Absence:
        return Absence(left=LeaveReason.RESTARTING, returns_ms=self.wait_ms)


def tries_of(operator: Any, ti: Any) -> Tries:
    """Decide as Airflow does when a try has failed (``TaskInstance.next_retry_datetime``).

    :param operator: with its retry parameters
    :param ti: the task instance, with the number of this try, and how many may fail
    """
    again = bool(ti.max_tries) and ti.try_number <= ti.max_tries
    return Tries(again=again, wait_ms=_longest_wait_ms(operator, ti.try_number))


def _longest_wait_ms(operator: Any, try_number: int) -> int | None:
    """The longest wait before the next try. With exponential backoff, Airflow spreads it up to twice the power, by a
    hash of the try.
    """
    if getattr(operator, "retry_policy", None) is not None:
        return None  # the retry policy decides, when the try has failed
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
