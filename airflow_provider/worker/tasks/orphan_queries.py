"""Detached queries that no worker has."""

from __future__ import annotations

from airflow_provider.state.records import is_driver
from airflow_provider.state.views.presence import has_said_that_it_leaves, present, stay
from airflow_provider.worker.tasks.commands import EndOrphan
from airflow_provider.worker.tasks.state import Execution


def end_orphans(x: Execution) -> None:
    """End the queries that are no longer to run because their job was removed or stopped while their worker was away.
    This is done by the worker that had them last, and by the leader.

    It is enough to look when the jobs topic or the round has changed, and when this process gets its first tasks: the
    process before it may have ended while it was ending one.
    """
    x.looked_for_orphans = True
    me, group = x.settings.worker, x.status.group
    leads = group is not None and group.leader == me
    there = present(x.status)
    for last in x.status.living():
        mine = last.worker == me or (leads and last.worker not in there)
        if mine and last.task not in x.runs and x.jobs.work_of(last.task) is None:
            x.do(EndOrphan(status=last))


def others_stay(x: Execution) -> bool | None:
    """Whether other workers stay in the group when this one leaves; None: it is too early to say.

    Of two workers that leave at the same time, each first writes so, and then looks. So at least one sees that the
    other leaves, too.
    """
    me = x.settings.worker
    if not has_said_that_it_leaves(x.status, me, x.settings.process):
        return None
    return bool(stay(x.status, wall_ms=x.wall) - {me})


def end_all_unless_others_stay(x: Execution) -> None:
    """End the queries that other leaving workers have left to this one, even if it has no tasks itself."""
    if x.leaves_for_good and others_stay(x) is False:
        x.leaves_for_good = False
        end_all(x)


def end_all(x: Execution) -> None:
    """End all detached queries, except this worker's own. Drivers that are still to run go on without a worker."""
    for last in x.status.living():
        if last.task not in x.runs and not (is_driver(last.handle) and x.jobs.work_of(last.task) is not None):
            x.do(EndOrphan(status=last))
