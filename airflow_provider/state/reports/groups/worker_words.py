"""The state of each worker of a group in words: the same in ``cospark status`` and on the page. Pure."""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.records.status_topic.worker_absence import waits_for_airflow
from airflow_provider.state.reports.groups.group_description import how_it_is, state_in_words
from airflow_provider.state.views.presence import lost, stands_back
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId

_MOST_NAMED: Final = 3


def known_workers(status: StatusSnapshot) -> list[WorkerId]:
    """The workers that are in the group, or have a record."""
    return sorted({*(status.group.members if status.group else {}), *status.workers})


def worker_in_words(name: WorkerId, status: StatusSnapshot) -> str | None:
    """The state of a worker; None: it does not matter any more."""
    worker, record = status.workers.get(name), status.group
    if why := stands_back(status).get(name):
        return f"stands back: {why}"
    if name in lost(status):
        return lost_in_words(worker)
    if record is not None and name in record.members:
        if worker is None:
            return "no record"
        return _left(worker) if worker.state is WorkerPhase.LEFT else state_in_words(how_it_is(worker))
    if worker is not None and worker.state is WorkerPhase.JOINING:
        return "joining"
    if not waiting_for(name, status):
        return None
    return _left(worker) if worker and worker.left else lost_in_words(worker)


def lost_in_words(last: WorkerStatus | None) -> str:
    """The state of a worker that is not in the group, and has not said that it leaves.

    :param last: its last record
    """
    return (waits_for_airflow(last) if last else "") or "lost"


def where_airflow_says_why(status: StatusSnapshot) -> tuple[str, ...]:
    """Where to find out why Airflow does not start some workers' processes, which the group's topics do not say: a line
    of words, or none.
    """
    waiting = [
        name
        for name, worker in sorted(status.workers.items())
        if worker.awaits is Awaited.PROCESS and worker_in_words(name, status) is not None
    ]
    if not waiting:
        return ()
    names = in_short(waiting, most=_MOST_NAMED)
    return (f"Airflow has not started {names} yet: its page of groups says why (a paused DAG, a full pool, ...)",)


def _left(worker: WorkerStatus) -> str:
    return f"left ({worker.left.value})" if worker.left else "left"


def waiting_for(name: WorkerId, status: StatusSnapshot) -> Tasks:
    """The lost tasks that wait for this worker to return."""
    record = status.group
    return NO_TASKS if record is None else record.waiting_by_worker.get(name, NO_TASKS)
