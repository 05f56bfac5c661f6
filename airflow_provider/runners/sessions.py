"""The port between a runner of attached tasks and whatever gives them Spark sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider.driver.errors import SparkGoneError
from airflow_provider.driver.job_counts import JobCounts
from airflow_provider.driver.sight import Sight
from airflow_provider.spark.attempt import TaskSession
from airflow_provider.spark.runner import TaskOrder


class Spark(Protocol):
    """A Spark that sessions are of, and that may end under them: a JVM of this process, or a server."""

    @property
    def number(self) -> int:
        """From 1; each that takes the place of one that has ended has another."""

    @property
    def alive(self) -> bool:
        """Whether it can run anything, as far as is known."""

    @property
    def ui(self) -> str:
        """The address of its own page; empty: it has none that is known."""

    def gone(self) -> SparkGoneError:
        """How it has ended."""


class AttachedSession(TaskSession, Protocol):
    """The session of a task of this process."""

    @property
    def spark(self) -> Spark | None:
        """What it is a session of; None before it has been opened."""

    def give_up(self) -> None:
        """Its attempt never begins, and somebody else may have the task by now. From any thread; waits for nothing."""

    def await_batch(self, limit_s: float, may_go_on: Callable[[], bool]) -> None:
        """Wait until each of the task's queries has ended the batch that it is in, if its last one took no longer than
        ``limit_s``.

        :param may_go_on: waits a little, and says whether to wait on
        """

    def count(self) -> JobCounts | None:
        """What its Spark jobs have done; from any thread. None: its query says that better, or nothing is known."""

    def count_at_the_end(self) -> JobCounts | None:
        """The same, when the task's code has returned: nothing of it is open any more."""


class Sparks(Protocol):
    """Where the sessions of one runner's tasks are from.

    :ivar opening: what a first one waits for
    """

    opening: Sight

    def session(self, order: TaskOrder) -> AttachedSession:
        """A session for this attempt, which nobody has opened yet."""

    def look_at(self, spark: Any) -> Sight:
        """Look at one that a session of these is of. It may take a while: not in an event loop."""

    async def release(self, *, timeout_s: float) -> None:
        """There will be no more sessions. Nobody waits longer than this."""
