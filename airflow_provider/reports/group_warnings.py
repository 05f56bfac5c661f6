"""What is wrong with how a group is set up, in words for those who run it. Pure."""

from __future__ import annotations

from airflow_provider.ledger.capacity import slot_shortage
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.reports.time_zones import different_time_zones


def group_warnings(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[str, ...]:
    """A sentence for each; mostly none."""
    found = slot_shortage(jobs, status), different_time_zones(status)
    return tuple(warning.in_words() for warning in found if warning is not None)
