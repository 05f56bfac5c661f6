"""Which jobs have tasks that are made ready before they move. Pure."""

from __future__ import annotations

from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot


def learned_jobs(jobs: JobsSnapshot, status: StatusSnapshot) -> frozenset[str]:
    """The jobs whose tasks have something to warm up, without two kinds:

    - Those whose queries live on without their workers. Such a query runs on while another worker adopts it. So nothing
      is gained by a lesson, and a round could only move as many as may be learned at a time.
    - Those with tasks that take several slots. They are placed by the slots that are free, whatever has moved before.
    """
    stateful = jobs.stateful
    if not stateful:
        return stateful
    large = (job for job in stateful if jobs.plans[job].large)
    detached = (last.task.job for last in status.tasks.values() if last.lives_on)
    return stateful.difference(large, detached)
