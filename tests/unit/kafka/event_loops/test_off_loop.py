"""What is done for many tasks leaves the event loop to others."""

from __future__ import annotations

import asyncio
import threading

import pytest
from waiting import DEADLINE_S

from airflow_provider.kafka.event_loops.off_loop import off_loop


async def test_work_for_few_tasks_is_done_at_once() -> None:
    assert await off_loop(threading.current_thread, tasks=100) is threading.current_thread()


async def test_the_loop_goes_on_while_work_for_many_tasks_is_done() -> None:
    done = threading.Event()
    waiting = asyncio.ensure_future(off_loop(lambda: done.wait(DEADLINE_S), tasks=100_000))
    await asyncio.sleep(0)  # a loop that did the work itself would come back without what it waits for
    done.set()
    assert await waiting


async def test_what_goes_wrong_in_the_work_is_its_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await off_loop(lambda: 1 // 0, tasks=100_000)
