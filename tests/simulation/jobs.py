"""The jobs topic: what was configured after each of its records, and what has come to its end since."""

from __future__ import annotations

from airflow_provider.protocol.model import NO_TASKS, ConfigOffset, TaskId, Tasks


class JobsTopic:
    """What is to run, at each offset of the topic."""

    def __init__(self) -> None:
        self.finished: Tasks = NO_TASKS
        self._records: list[Tasks] = [NO_TASKS]

    @property
    def offset(self) -> ConfigOffset:
        return ConfigOffset(len(self._records) - 1)

    @property
    def written(self) -> Tasks:
        """What the topic has, whether it still is to run or not."""
        return self._records[-1]

    @property
    def configured(self) -> Tasks:
        return self.configured_at(self.offset)

    def configured_at(self, offset: ConfigOffset) -> Tasks:
        return self._records[offset] - self.finished

    def configured_between(self, first: ConfigOffset, last: ConfigOffset) -> Tasks:
        """What was configured all the time, both included."""
        return self.configured_at(last).intersection(*self._records[first:last])

    def removed_between(self, first: ConfigOffset, last: ConfigOffset) -> Tasks:
        """What was configured, from the first on, and is not at the last."""
        return NO_TASKS.union(*self._records[first:last]) - self.configured_at(last) - self.finished

    def append(self, tasks: Tasks) -> None:
        self._records.append(tasks)

    def finish(self, task: TaskId) -> None:
        self.finished |= {task}

    def forget_ends(self, job: str) -> None:
        """What of a job had come to its end is to run again."""
        self.finished = frozenset(task for task in self.finished if task.job != job)
