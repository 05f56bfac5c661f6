"""Detached queries that no worker has."""

from __future__ import annotations

from airflow_provider.execution.commands import EndOrphan
from airflow_provider.execution.state import Execution
from airflow_provider.ledger.presence import present


def end_orphans(x: Execution) -> None:
    """End the queries that are no longer to run because their job was removed or stopped while their worker was away.
    This is done by the worker that had them last, and by the leader.

    It is enough to look when the jobs topic or the round has changed.
    """
    me, group = x.settings.worker, x.status.group
    leads = group is not None and group.leader == me
    there = present(x.status)
    for last in x.status.living():
        mine = last.worker == me or (leads and last.worker not in there)
        if mine and last.task not in x.runs and x.jobs.work_of(last.task) is None:
            x.do(EndOrphan(status=last))


def end_all(x: Execution) -> None:
    """End all queries that other leaving workers have left to this one."""
    for last in x.status.living():
        if last.task not in x.runs:
            x.do(EndOrphan(status=last))
