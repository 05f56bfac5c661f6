"""What is wrong with how a group is set up, in words for those who run it. Pure."""

from __future__ import annotations

from airflow_provider.state.reports.groups.time_zones import different_python_time_zones, different_time_zones
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.capacity import slot_shortage
from airflow_provider.state.views.status_view import StatusSnapshot


def group_warnings(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[str, ...]:
    """A sentence for each; mostly none."""
    found = slot_shortage(jobs, status), different_time_zones(status), different_python_time_zones(status)
    return tuple(warning.in_words() for warning in found if warning is not None)
