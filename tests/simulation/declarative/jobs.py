"""The configuration: planners and tasks that have not finished, and its history."""

from __future__ import annotations

from airflow_provider.values.model import NO_TASKS, PLANNER_INDEX, ConfigOffset, TaskId, Tasks


class Jobs:
    """The jobs topic, as far as a group needs it.

    :ivar configured: the present configuration
    """

    def __init__(self) -> None:
        self.configured: Tasks = NO_TASKS
        self._known: list[Tasks] = [NO_TASKS]

    @property
    def offset(self) -> ConfigOffset:
        return ConfigOffset(len(self._known) - 1)

    def known_at(self, offset: int) -> Tasks:
        """All tasks that a reader at this offset can run."""
        return self._known[offset]

    def set_job(self, job: str, tasks: int) -> bool:
        """:returns: whether this changes anything"""
        mine = {TaskId(job, index) for index in range(tasks)} | {TaskId(job, PLANNER_INDEX)}
        return self._become(frozenset(task for task in self.configured if task.job != job) | mine)

    def remove_job(self, job: str) -> bool:
        return self._become(frozenset(task for task in self.configured if task.job != job))

    def finish(self, task: TaskId) -> bool:
        return self._become(self.configured - {task})

    def _become(self, configured: Tasks) -> bool:
        if configured == self.configured:
            return False
        self.configured = configured
        self._known.append(self._known[-1] | configured)
        return True
