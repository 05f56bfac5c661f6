"""What lives on without a process, and nobody has."""

from __future__ import annotations

from airflow_provider.execution.commands import EndAbandoned
from airflow_provider.execution.state import Execution
from airflow_provider.ledger.presence import has_said_that_it_leaves, present, stay


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


def somebody_stays(x: Execution) -> bool | None:
    """Whether this worker, which leaves, leaves somebody behind; None: it is too soon to say.

    Of two who leave at the same time each first says so, and then looks: so at least one sees that the other leaves,
    too.
    """
    me = x.settings.worker
    if not has_said_that_it_leaves(x.status, me, x.settings.process):
        return None
    return bool(stay(x.status, wall_ms=x.wall) - {me})


def end_what_nobody_stays_for(x: Execution) -> None:
    """What others have let go of, because this worker was there still: whether or not it has any task itself."""
    if x.leaves_for_good and somebody_stays(x) is False:
        x.leaves_for_good = False
        end_all(x)


def end_all(x: Execution) -> None:
    """What lives on, but for what this worker has itself."""
    for last in x.status.living():
        if last.task not in x.runs:
            x.do(EndAbandoned(status=last))
