"""Determines which worker's process sends the metrics of a whole group. Pure."""

from __future__ import annotations

from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId


def spokesman(status: StatusSnapshot) -> WorkerId | None:
    """The worker whose process sends them: the leader of the last round, or, if it has left, the first worker present.

    All processes read the same in the group's topic, so they agree without communication, in every group protocol.
    None: no worker is present.
    """
    if status.group is None:
        return None
    there = present(status)
    return status.group.leader if status.group.leader in there else min(there, default=None)
