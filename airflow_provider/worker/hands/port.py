"""The port between a worker's membership and what runs its tasks: its hands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from airflow_provider.values.model import Epoch, TaskId, Tasks

Released = Callable[[Tasks], None]
"""Tells the membership that tasks no longer run here."""


class Hands(Protocol):
    """Runs the tasks of a worker. Everything on one event loop; nothing blocks."""

    @property
    def running(self) -> Tasks:
        """The tasks that run here now."""

    @property
    def attached(self) -> Tasks:
        """Those of them that end when this worker leaves: they can't be adopted by another one."""

    @property
    def learning(self) -> Mapping[TaskId, float]:
        """The tasks that are warmed up here while others have them, with the progress: from 0 to 1, 1 when ready."""

    @property
    def failed_warm_ups(self) -> Mapping[TaskId, str]:
        """Tasks whose warm-up has failed for good here, and why, until something else happens to them here."""

    @property
    def warm_up_deaths(self) -> Mapping[TaskId, int]:
        """How often this worker's process has ended during the warm-up of these."""

    @property
    def stopped_running(self) -> int:
        """How many tasks, without planners, were running here when they were told to stop."""

    @property
    def done(self) -> bool:
        """Whether the membership should continue in another process: there is nothing left to do here, or nothing can
        be done here.
        """

    @property
    def condition(self) -> str:
        """What keeps all tasks here from running, in a few words; usually empty."""

    @property
    def spark_ui(self) -> str:
        """The address of the Spark UI; empty if it is off."""

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """Import prefixes of the code that may be imported as jobs; None: unknown here."""

    @property
    def time_zone(self) -> str:
        """The time zone of tasks' sessions; empty: unknown here."""

    @property
    def python_time_zone(self) -> str:
        """The time zone of the process that runs tasks; empty: unknown here."""

    @property
    def unable(self) -> str:
        """Why no task can be started here; usually empty."""

    @property
    def blamed(self) -> str:
        """Why this worker is to blame for failures of its tasks; usually empty. It starts no more of them."""

    @property
    def awaits_own_record_since_ms(self) -> int:
        """Since when tasks wait here until the worker's own record is written again and read back (wall clock); 0: none
        waits.
        """

    @property
    def fault(self) -> BaseException | None:
        """A fault of this program that ends the worker."""

    def joined(self) -> None:
        """The worker is in its group, for the first time or again. Its tasks are still to come."""

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        """Run these."""

    def stop(self, tasks: Tasks, reason: str) -> None:
        """Stop these, started or not; each is released when it has stopped."""

    def learn(self, tasks: Tasks) -> None:
        """Warm these up while other workers have them. If one is taken later, it continues with the warm-up; if one is
        stopped, it is released like any other task.
        """

    def stop_learning(self, tasks: Tasks) -> None:
        """Drop the warm-ups of these."""

    def advance(self, epoch: Epoch) -> None:
        """The worker is in a new epoch, in which it keeps its tasks."""

    def refresh(self) -> None:
        """The topics have new records: what is to run may have changed."""

    def drain(self) -> None:
        """Start no more tasks; running ones continue. Planners still start, because other tasks wait for them."""

    def let_failed_go(self) -> None:
        """Release tasks that have failed for good, from now on: the worker is to leave."""

    def leave_for_good(self) -> None:
        """The worker is about to leave its group for good: end its detached tasks, unless other workers stay."""

    async def close(self) -> None:
        """Stop everything. Returns within a bounded time, even if something still runs."""
