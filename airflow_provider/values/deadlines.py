"""Awaits something for a limited time: one thing, several that share the time, or what goes on step by step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, TypeVar

T = TypeVar("T")


class DeadlineError(TimeoutError):
    """It did not end in time."""


class Deadline:
    """A moment by which several waits are over, one after the other. So they don't add up.

    :param timeout_s: from now
    """

    def __init__(self, timeout_s: float) -> None:
        self._at = time.monotonic() + timeout_s

    def left_s(self, *, least_s: float = 0.0, but_s: float = 0.0) -> float:
        """How much time is left.

        :param least_s: what the next wait may take even if the time is over
        :param but_s: what it must leave to the waits after it
        """
        return max(least_s, self._at - but_s - time.monotonic())


class Patience:
    """How long to wait for something that is reached step by step.

    :param timeout_s: the longest time, from now; None: as long as there is progress
    :param step_s: without a longest time, how long to wait for the next progress
    :param reached: how far it is now
    """

    def __init__(self, timeout_s: float | None, *, step_s: float, reached: object) -> None:
        self._step_s: Final = step_s if timeout_s is None else None
        self._deadline = Deadline(step_s if timeout_s is None else timeout_s)
        self._reached = reached

    def left_s(self) -> float:
        """How much time is left."""
        return self._deadline.left_s()

    def lasts(self, reached: object) -> bool:
        """Whether to wait on, although the time is over. Then it is counted anew.

        :param reached: how far it is now
        """
        if self._step_s is None or reached == self._reached:
            return False
        self._reached, self._deadline = reached, Deadline(self._step_s)
        return True


async def wait_at_most(timeout_s: float | None, work: Awaitable[T]) -> T:
    """Await ``work``, and cancel it if it does not end in time.

    A cancellation of the caller is never lost, even if it arrives at the very moment at which the time is over. It may
    be with ``asyncio.wait_for`` before Python 3.12, with ``asyncio.timeout`` of backports for Python 3.10, and with the
    cancel scopes of anyio before 4.16, which the constraints of many Airflow releases have. The caller then waits for
    ever for a task that it has cancelled.

    :param timeout_s: None: without a limit
    :raises DeadlineError: if ``work`` was cancelled because of this
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=timeout_s)
    finally:
        in_time = task.done()
        if not in_time:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif not task.cancelled():
            task.exception()  # a caller that is cancelled at this moment asks for it no more, and asyncio would log it
    if task.cancelled() and not in_time:
        raise DeadlineError
    return task.result()
