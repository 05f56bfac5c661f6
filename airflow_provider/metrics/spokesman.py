"""Who says of a group what is of all of it. Pure."""

from __future__ import annotations

from airflow_provider.ledger.presence import present
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import WorkerId


def spokesman(status: StatusSnapshot) -> WorkerId | None:
    """The worker whose process says it: who led the last round, or, if that one has left, the first of those who are
    there. All read the same in the group's topic, so they agree without asking each other, in every group protocol.

    None: nobody is there.
    """
    if status.group is None:
        return None
    there = present(status)
    return status.group.leader if status.group.leader in there else min(there, default=None)
