"""How often this worker's process has ended under each of its warm-ups.

A warm-up that needs too much memory has its process killed, and no event tells of that. The next process under the name
gets the same learner task again, without a round, and would be killed, too. So it counts, by the record of the one
before it, and gives the task up as one whose warm-up has failed for good.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.ledger.presence import is_same_process
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import WorkerPhase, WorkerStatus

MOST_DEATHS: Final = 2
"""The first one may have had another cause: a host that went down, or a warm-up beside it."""

DIED: Final = "its process ended while it was made ready"


def deaths_after(last: WorkerStatus | None, process: str) -> dict[TaskId, int]:
    """By task, for a process that begins, or goes on, under the worker's name.

    :param last: the worker's last word
    :param process: the one that begins
    """
    if last is None or last.state is WorkerPhase.LEFT:
        return {}
    deaths = {each.task: each.times for each in last.warm_up_deaths}
    if last.state is not WorkerPhase.DEFERRED and not is_same_process(last.process, process):
        for lesson in last.learning:
            if not lesson.ready:
                deaths[lesson.task] = min(deaths.get(lesson.task, 0) + 1, MOST_DEATHS)
    return deaths
