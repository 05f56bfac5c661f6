"""Runs work on many tasks in a thread, so that it does not block the other memberships of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

_THREAD_FROM_TASKS: Final = 2_000
"""From about this number of tasks on, the work blocks the loop for some 10 ms, which is longer than it takes to start a
thread.
"""

SETTLE_S: Final = 0.05
"""How long to wait after a change before looking at the group, because several jobs are often submitted together."""

REST: Final = 10
"""How many times as long as the last look at a group took to wait before the next one: looking takes long with many
tasks, and slows down other threads.
"""

T = TypeVar("T")


async def off_loop(work: Callable[[], T], *, tasks: int) -> T:
    """Do work: immediately, or in a thread if it concerns many tasks.

    :param work: must not touch anything that belongs to the loop
    :param tasks: how many tasks it concerns
    """
    return await asyncio.to_thread(work) if tasks >= _THREAD_FROM_TASKS else work()
