"""``cospark jobs submit --wait``: until a job is complete, and what is said meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

from airflow_provider.hooks.standing import SAY_EVERY_S, Standing
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.presence import all_left, what_was
from airflow_provider.kafka.progress import JobProgress, job_progress
from airflow_provider.kafka.topics.log_errors import BrokerAwayError, LogTimeoutError


class JobGoneError(Exception):
    """The job was removed while it was waited for."""


class LateJobError(Exception):
    """The job is not complete in time."""


async def wait_until_complete(
    job: str,
    logs: GroupLogs,
    *,
    timeout_s: float | None,
    tell: Callable[[str], None],
) -> JobProgress:
    """How the job has ended. A broker that is away is waited for, too. How far it is, is told when that has changed,
    and no more often than others say it in their logs.

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

    said: Standing | str | None = None
    while (now := progress()) is not None and not now.complete:
        present = _nobody(logs) or Standing.of_job(job, logs.jobs, logs.status)
        text = present if isinstance(present, str) else f"{job}: {present.in_words(wall_ms())}"
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise LateJobError(f"after {timeout_s:g} s: {text}; the job stays in its group")
        if present != said:
            tell(text)
            said = present
        with suppress(LogTimeoutError, BrokerAwayError):
            await logs.wait_for(
                lambda _jobs, _status: (then := progress()) is None or then.complete,
                timeout_s=min(SAY_EVERY_S, left_s),
            )
    if now is None:
        raise JobGoneError(f"job {job} {logs.jobs.removals.get(job) or 'was removed'}")
    return now


def _nobody(logs: GroupLogs) -> str | None:
    """That nobody is in the group, as far as its topics say; None: somebody is."""
    if logs.status.group is not None and not all_left(logs.status):
        return None
    return f"nobody is in group {logs.group}, and the job waits for a worker to join: {what_was(logs.status)}"
