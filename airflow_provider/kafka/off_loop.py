"""What takes long for many tasks is done beside the event loop, so that the loop's other memberships go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

_THREAD_FROM_TASKS: Final = 2_000
"""From about so many on it takes the loop longer than a thread's start and the hand-over are worth: some 10 ms."""

SETTLE_S: Final = 0.05
"""What changes is looked at when it has settled: several jobs are often submitted together."""

REST: Final = 10
"""A look at a group of many tasks takes its time, if in a thread: everything else has ten times as long."""

T = TypeVar("T")


async def off_loop(work: Callable[[], T], *, tasks: int) -> T:
    """Do work that looks at so many tasks: here and now, or in a thread.

    :param work: must not touch what belongs to the loop
    """
    return await asyncio.to_thread(work) if tasks >= _THREAD_FROM_TASKS else work()
