"""The errors of tasks that have no Spark, in any runner."""

from __future__ import annotations


class SparkStartError(Exception):
    """Spark could not be started or reached; the message says what is missing."""


class SparkAwayError(SparkStartError):
    """Nothing answers where Spark is to be. To try again costs nothing."""


class SparkFullError(Exception):
    """The Spark of this worker is there, and has no capacity left for a task.

    :param began: whether the task's code was called; if so, its own work may be what is too much
    """

    def __init__(self, message: str, *, began: bool) -> None:
        super().__init__(message)
        self.began = began


class SparkGoneError(Exception):
    """The Spark that tasks of this worker ran on has ended under them.

    :param spark: its number: tasks with the same number have lost the same Spark
    """

    def __init__(self, message: str, *, spark: int) -> None:
        super().__init__(message)
        self.spark = spark
