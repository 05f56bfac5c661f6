"""The port between the runner of attached tasks and the source of their Spark sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider.spark.attempts.run_attempt import TaskSession
from airflow_provider.spark.local.errors import SparkGoneError
from airflow_provider.spark.local.job_counts import JobCounts
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import TaskOrder


class Spark(Protocol):
    """A running Spark, which may end while tasks use it: the JVM of this process, or a server."""

    @property
    def number(self) -> int:
        """Counts from 1. The Spark that replaces an ended one has a new number."""

    @property
    def alive(self) -> bool:
        """Whether it can run tasks, as far as is known."""

    @property
    def ui(self) -> str:
        """The address of its UI; empty: unknown."""

    def gone(self) -> SparkGoneError:
        """An error that says how it has ended."""


class AttachedSession(TaskSession, Protocol):
    """The session of an attached task."""

    @property
    def spark(self) -> Spark | None:
        """The Spark that the session belongs to; None before it is opened."""

    def give_up(self) -> None:
        """The attempt will never begin, and another worker may already have the task. Callable from any thread; does
        not wait.
        """

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None:
        """Wait until each of the task's queries has completed its current batch, if its last batch took at most
        ``limit_s``.

        :param may_go_on: sleeps briefly, and returns whether to wait further
        """

    def count(self) -> JobCounts | None:
        """What its Spark jobs have done; callable from any thread. None: unknown, or reported by its query itself."""

    def count_at_the_end(self) -> JobCounts | None:
        """The same, after the task's code has returned."""


class Sparks(Protocol):
    """Gives the tasks of one runner their sessions.

    :ivar opening: the condition while the first session is being opened
    """

    opening: Sight

    def session(self, order: TaskOrder) -> AttachedSession:
        """A session for this attempt, not opened yet."""

    def look_at(self, spark: Any) -> Sight:
        """Check the Spark of one of these sessions. This may block: don't call it in an event loop."""

    async def release(self, *, timeout_s: float) -> None:
        """Free what is held: no more sessions are needed.

        :param timeout_s: how long to wait at most
        """
