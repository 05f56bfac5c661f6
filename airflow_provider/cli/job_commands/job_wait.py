"""``cospark jobs submit --wait``: waits until a job is complete, and shows its progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from airflow_provider.integration.memberships.group_now import group_now
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import PassingError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.reports.standing import SAY_EVERY_S, SoFar, Standing
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import nobody
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobProgress, job_progress


class JobGoneError(Exception):
    """The job was removed during the wait."""


class LateJobError(Exception):
    """The job is not complete in time."""


async def wait_until_complete(
    job: str,
    topics: GroupTopics,
    settings: KafkaSettings,
    *,
    timeout_s: float | None,
    tell: Callable[[str], None],
) -> JobProgress:
    """Wait until the job has ended, and return how. Also waits for a broker that is away. Progress is told when it has
    changed, but no more often than in the logs of waiting tasks. Whether the group has workers is also asked of its
    coordinator: killed ones write no record.

    :param settings: how to reach the coordinator
    :param timeout_s: how long to wait, in seconds; None: without limit
    :param tell: called with the job's progress
    :raises JobGoneError: saying who removed it
    :raises LateJobError: saying how far it is
    """
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s
    # Only from here on, as an earlier snapshot may have the previous run.
    await topics.catch_up()

    said: SoFar | None = None
    async with group_now(settings, topics.group, topics) as now:
        while True:
            jobs, status = now.jobs, now.status
            progress = job_progress(job, jobs, status)
            if progress is None:
                raise JobGoneError(f"job {job} {jobs.removals.get(job) or 'was removed'}")
            if progress.complete:
                return progress
            so_far = _nobody(topics.group, status) or SoFar(text=job, standing=Standing.of_job(job, jobs, status))
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise LateJobError(f"after {timeout_s:g} s: {so_far.in_words(wall_ms())}; the job stays in its group")
            if so_far != said:
                tell(so_far.in_words(wall_ms()))
                said = so_far
            with suppress(PassingError):
                await topics.wait_for(partial(_is_over, job), timeout_s=min(SAY_EVERY_S, left_s), seen=now)


def _is_over(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether nothing of the job is left to run, or it no longer exists."""
    progress = job_progress(job, jobs, status)
    return progress is None or progress.complete


def _nobody(group: str, status: StatusSnapshot) -> SoFar | None:
    """A message if the group has no workers; None: it has some."""
    why = nobody(status)
    return SoFar(text=f"group {group} has no workers, and the job waits for one to join: {why}") if why else None
