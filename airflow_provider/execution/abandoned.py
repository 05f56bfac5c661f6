"""What lives on without a process, and nobody has."""

from __future__ import annotations

from airflow_provider.execution.commands import EndAbandoned
from airflow_provider.execution.state import Execution
from airflow_provider.ledger.presence import present


def end_what_nobody_has(x: Execution) -> None:
    """What is not to run any more, and whose worker is away: it may have been removed, or stopped, meanwhile. Done by
    who had it last, and by the leader.

    Looked for when the jobs topic or the round has changed: in between nobody loses anything. And as a process begins:
    the one before may have ended while it was at it.
    """
    x.looked_for_abandoned = True
    me, group = x.settings.worker, x.status.group
    leads = group is not None and group.leader == me
    there = present(x.status)
    for last in x.status.living():
        mine = last.worker == me or (leads and last.worker not in there)
        if mine and last.task not in x.runs and x.jobs.work_of(last.task) is None:
            x.do(EndAbandoned(status=last))


def end_all(x: Execution) -> None:
    """What others have let go of, because this worker was there still."""
    for last in x.status.living():
        if last.task not in x.runs:
            x.do(EndAbandoned(status=last))
