"""Whether a worker's process has ended, or lost its lease, while a task ran in it.

Only the records say so: the task's own, which still says that it is running when another process gets the task, and the
last word of the worker that wrote it. A process that gives a task up has stopped it, and has stored the record of that,
which may not have been read yet (``last_words.py``). If it could not store this in time, the task is suspected once
without a reason, for as long as a trial.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.views.presence import is_same_process
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import WorkerId

_IN_ORDER: Final = frozenset({WorkerPhase.LEFT, WorkerPhase.STOPPING, WorkerPhase.DEFERRED})
"""A process whose last word was one of these has stopped its tasks, or was about to. It may have been killed while it
waited for them, as after the grace period of a container."""


def died_with_its_process(
    last: TaskStatus | None, status: StatusSnapshot, *, worker: WorkerId, process: str, before: WorkerStatus | None
) -> bool:
    """Whether the task was running in a process that ended, or was removed from the group, without a word.

    :param last: the last record of the task
    :param worker: who has got the task now, in this process
    :param before: the record of its worker that this process has found as it began
    """
    if last is None or last.state is not TaskState.RUNNING or last.handle is not None or last.started_at_ms is None:
        return False
    said = before if last.worker == worker else status.workers.get(last.worker)
    if said is None or said.state in _IN_ORDER:
        return False
    return last.worker != worker or not is_same_process(said.process, process)
