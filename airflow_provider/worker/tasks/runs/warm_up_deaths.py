"""How often this worker's process has ended during each of its warm-ups.

If a warm-up needs too much memory, its process is killed without any event. The worker's next process gets the same
learner task again, without a round, and would be killed, too. So it counts these deaths with the help of the previous
process's record, and treats the warm-up as failed for good after the second one.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.views.presence import is_same_process
from airflow_provider.values.model import TaskId

MOST_DEATHS: Final = 2
"""The first one may have had another cause: the host went down, or another warm-up was running."""

DIED: Final = "the worker's process ended during the warm-up"


def deaths_after(last: WorkerStatus | None, process: str) -> dict[TaskId, int]:
    """The number of deaths by task, for a process that takes over the worker's name.

    :param last: the worker's last record
    :param process: the new process
    """
    if last is None or last.state is WorkerPhase.LEFT:
        return {}
    deaths = {each.task: each.times for each in last.warm_up_deaths}
    if last.state is not WorkerPhase.DEFERRED and not is_same_process(last.process, process):
        for lesson in last.learning:
            if not lesson.ready:
                deaths[lesson.task] = min(deaths.get(lesson.task, 0) + 1, MOST_DEATHS)
    return deaths
