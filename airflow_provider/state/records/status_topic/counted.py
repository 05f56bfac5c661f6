"""What has gone wrong with a task, as its record and its worker count it."""

from __future__ import annotations


class Counted:
    """Whoever has these counts.

    :ivar failures: how many attempts have failed
    :ivar forgiven: how many of these no longer count
    :ivar spark_deaths: how often Spark has ended under an attempt
    :ivar process_deaths: how often its worker's process has ended, or lost its lease, under an attempt
    """

    __slots__ = ()

    failures: int
    forgiven: int
    spark_deaths: int
    process_deaths: int

    @property
    def deaths(self) -> int:
        """How often Spark or its worker's process has ended under an attempt."""
        return self.spark_deaths + self.process_deaths

    @property
    def counted_failures(self) -> int:
        """How many failures use up the job's retries: those since the task has gone well."""
        return max(0, self.failures - self.forgiven)
