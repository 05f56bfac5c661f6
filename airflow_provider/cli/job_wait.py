"""``cospark jobs submit --wait``: until a job is complete, and what is said meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.progress import JobProgress, job_progress
from airflow_provider.kafka.records import WorkerPhase
from airflow_provider.kafka.topics.log_errors import BrokerAwayError, LogTimeoutError
from airflow_provider.kafka.topics.status_view import StatusSnapshot

SAY_EVERY_S: Final = 30.0
"""How far the job is, is said no more often, and only when it has changed."""


class JobGoneError(Exception):
    """The job was removed while it was waited for."""


class LateJobError(Exception):
    """The job is not complete in time."""


async def wait_until_complete(
    job: str,
    logs: GroupLogs,
    *,
    timeout_s: float | None,
    in_words: Callable[[JobProgress], str],
    tell: Callable[[str], None],
) -> JobProgress:
    """How the job has ended. A broker that is away is waited for, too.

    :param timeout_s: how long to wait, in seconds; without end if None
    :param tell: is told how far the job is
    :raises JobGoneError: saying by whom it was removed
    :raises LateJobError: saying how far it is
    """
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s
    # Only from here on: a snapshot of before may hold the run before.
    await logs.catch_up()

    def progress() -> JobProgress | None:
        return job_progress(job, logs.jobs, logs.status)

    said = ""
    while (now := progress()) is not None and not now.complete:
        present = in_words(now) if _somebody_is_in(logs.status) else _nobody(logs.group)
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise LateJobError(f"after {timeout_s:g} s: {present}; the job stays in its group")
        if present != said:
            tell(present)
            said = present
        with suppress(LogTimeoutError, BrokerAwayError):
            await logs.wait_for(
                lambda _jobs, _status: (then := progress()) is None or then.complete,
                timeout_s=min(SAY_EVERY_S, left_s),
            )
    if now is None:
        raise JobGoneError(f"job {job} {logs.jobs.removals.get(job) or 'was removed'}")
    return now


def _somebody_is_in(status: StatusSnapshot) -> bool:
    """Whether a worker was in the last round and has not left since."""
    told = status.workers
    members = status.group.members if status.group else ()
    return any(name not in told or told[name].state is not WorkerPhase.LEFT for name in members)


def _nobody(group: str) -> str:
    return f"nobody is in group {group}: the job waits until a worker joins it (cospark worker {group}, or a DAG's)"
