"""How Spark may be missing to a task, whatever runs it."""

from __future__ import annotations


class SparkStartError(Exception):
    """There is no Spark to be had; the message says what is missing."""


class SparkGoneError(Exception):
    """The Spark that tasks of this worker ran on has ended under them.

    :param spark: its number in this process
    """

    def __init__(self, message: str, *, spark: int) -> None:
        super().__init__(message)
        self.spark = spark
