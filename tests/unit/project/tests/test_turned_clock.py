"""The clock that tests turn."""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest
from turned_clock import time_passes

from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.values.deadlines import DeadlineError, wait_at_most

REAL = time.monotonic


@pytest.mark.turned_clock
async def test_an_hour_passes_in_no_time_on_all_clocks_and_everything_in_its_order() -> None:
    began, loop = REAL(), asyncio.get_running_loop()
    came: list[int] = []
    before = (loop.time(), time.monotonic(), now_ms() / 1000, wall_ms() / 1000)
    for minute in (50, 10, 30):
        loop.call_later(60 * minute, came.append, minute)
    await time_passes(3_600)
    assert came == [10, 30, 50]
    after = (loop.time(), time.monotonic(), now_ms() / 1000, wall_ms() / 1000)
    assert [round(late - early) for early, late in zip(before, after, strict=True)] == [3_600] * 4
    assert REAL() - began < 10


@pytest.mark.turned_clock
async def test_what_a_thread_does_is_waited_for() -> None:
    go_on, loop = threading.Event(), asyncio.get_running_loop()
    loop.call_later(0.01, go_on.set)
    assert await asyncio.wait_for(asyncio.to_thread(go_on.wait, 10), 20)


@pytest.mark.turned_clock
async def test_who_waits_again_for_what_is_left_of_a_time_comes_to_its_end() -> None:
    """A timer may fire a nanosecond early. If the clock stood still then, so would the test."""
    loop, rng = asyncio.get_running_loop(), random.Random(7)
    for _ in range(300):
        at, turns = loop.time() + 5 + rng.random(), 0
        for tenths_ns in range(40):
            loop.call_at(at - tenths_ns / 1e10, int)
        while loop.time() < at:
            turns += 1
            assert turns < 100
            with pytest.raises(DeadlineError):
                await wait_at_most(at - loop.time(), asyncio.Event().wait())


async def test_without_the_mark_nobody_turns_it() -> None:
    with pytest.raises(AssertionError, match="turned_clock"):
        await time_passes(1)
