"""What a worker does with the tasks it is given: the port between a membership and what runs its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from airflow_provider.protocol.model import Epoch, TaskId, Tasks

Released = Callable[[Tasks], None]
"""Tells the membership that tasks do not run here any more."""


class Hands(Protocol):
    """Takes tasks and gives them up again. Everything on one event loop; nothing blocks."""

    @property
    def running(self) -> Tasks:
        """What runs here now."""

    @property
    def attached(self) -> Tasks:
        """Of these what ends when this worker leaves, and does not go on under another one."""

    @property
    def learning(self) -> Mapping[TaskId, float]:
        """What is made ready here while others have it, and how far that is: from 0 to 1, and 1 when it is ready."""

    @property
    def failed_warm_ups(self) -> Mapping[TaskId, str]:
        """What could not be made ready here, and why, as long as nothing else has become of it here."""

    @property
    def warm_up_deaths(self) -> Mapping[TaskId, int]:
        """How often this worker's process has ended while it made these ready."""

    @property
    def stopped_running(self) -> int:
        """How many tasks, planners apart, were running here when they were told to stop."""

    @property
    def done(self) -> bool:
        """Whether the membership should go on in another process: nothing is left to do here, or it can't be done."""

    @property
    def condition(self) -> str:
        """What keeps all tasks here from running, in a few words; mostly nothing."""

    @property
    def spark_ui(self) -> str:
        """The address of the Spark UI; empty if it is off."""

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """Import prefixes of the code that may be imported as jobs; None: that is not known here."""

    @property
    def unable(self) -> str:
        """Why no task can be started here, though perhaps elsewhere; mostly nothing."""

    @property
    def fault(self) -> BaseException | None:
        """A fault of this program, after which the worker cannot go on."""

    def joined(self) -> None:
        """The worker is in its group, for the first time or again: what it is to run is still to come."""

    def take(self, tasks: Tasks, epoch: Epoch) -> None:
        """Run these."""

    def stop(self, tasks: Tasks, reason: str) -> None:
        """Stop these, started or not; each is released when it has stopped."""

    def learn(self, tasks: Tasks) -> None:
        """Make these ready to run, while another worker has them. One that is then taken goes on with what was made
        ready; one that is stopped is released as others are.
        """

    def stop_learning(self, tasks: Tasks) -> None:
        """Let go of what was made ready for these."""

    def advance(self, epoch: Epoch) -> None:
        """The worker is in a new epoch; what it keeps, it keeps under that one."""

    def refresh(self) -> None:
        """The topics have something new: what is to run may have changed, or gone."""

    def drain(self) -> None:
        """Start no task any more; what runs goes on. Planners start: others wait for them."""

    def let_failed_go(self) -> None:
        """Keep no place for what has failed for good, from now on: the worker is to leave."""

    def leave_for_good(self) -> None:
        """The worker is about to leave its group, and never comes back: what goes on without it, and nobody stays for,
        is to be ended.
        """

    async def close(self) -> None:
        """Stop everything; returns within a bounded time, whatever still runs."""
