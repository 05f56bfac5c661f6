"""The clock that leases are measured by goes on while a host is suspended, and timers follow it."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest
from suspending import Host
from waiting import DEADLINE_S, eventually

from airflow_provider.group.live import timers
from airflow_provider.group.live.timers import call_at
from airflow_provider.kafka.clock import now_ms

HOUR_MS = 3_600_000


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


class Called:
    """When a timer called."""

    def __init__(self) -> None:
        self.at_ms: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def __call__(self) -> None:
        self.at_ms.set_result(now_ms())

    async def soon(self) -> int:
        return await asyncio.wait_for(self.at_ms, DEADLINE_S)


def test_the_clock_goes_on_while_the_host_is_suspended(host: Host) -> None:
    before = now_ms()
    host.was_suspended(HOUR_MS)
    assert now_ms() - before >= HOUR_MS


@pytest.mark.slow
async def test_what_came_due_while_the_host_was_suspended_is_done_when_it_wakes_up(host: Host) -> None:
    called, later = Called(), Called()
    due = now_ms() + HOUR_MS
    call_at(due, called)
    late = call_at(due + HOUR_MS, later)
    await asyncio.sleep(0)
    host.was_suspended(HOUR_MS)
    assert await called.soon() >= due
    assert not later.at_ms.done()
    host.was_suspended(HOUR_MS)
    assert await later.soon() >= due + HOUR_MS
    late.cancel()


async def test_also_on_a_host_that_was_suspended_before_the_loop_began(host: Host) -> None:
    host.was_suspended(HOUR_MS)
    called = Called()
    due = now_ms() + 30
    call_at(due, called)
    assert due <= await called.soon() < due + HOUR_MS


async def test_a_timer_never_calls_too_early(host: Host) -> None:
    """The difference of the clocks may have been measured badly, by a thread that stood still between the two."""
    real = timers._ahead_s
    timers._TIMERS.pop(asyncio.get_running_loop(), None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timers, "_ahead_s", lambda: real() + 10)
        called = Called()
        due = now_ms() + 50
        call_at(due, called)
    assert await called.soon() >= due


async def test_a_timer_that_was_cancelled_calls_nobody(host: Host) -> None:
    called, last = Called(), Called()
    call_at(now_ms() + 20, called).cancel()
    timer = call_at(now_ms() + HOUR_MS, called)
    timer.cancel()
    timer.cancel()
    host.was_suspended(2 * HOUR_MS)
    call_at(now_ms() + 40, last)
    await last.soon()
    assert not called.at_ms.done()


@pytest.mark.parametrize("held_up_s", [0.0, 0.01])
async def test_what_is_due_at_one_time_is_called_in_one_turn(monkeypatch: pytest.MonkeyPatch, held_up_s: float) -> None:
    """Also if the process is held up between its first looks at the two clocks."""
    read, delays = timers._now_s, [held_up_s]

    def read_late() -> float:
        if delays:
            time.sleep(delays.pop())
        return read()

    monkeypatch.setattr(timers, "_now_s", read_late)
    turns = [0]
    due, seen = now_ms() + 30, []

    def next_turn() -> None:
        turns[0] += 1
        asyncio.get_running_loop().call_soon(next_turn)

    for _ in range(50):
        call_at(due, lambda: seen.append(turns[0]))
        time.sleep(0.0002)  # noqa: ASYNC251  the loop does nothing meanwhile
    next_turn()
    await eventually(lambda: len(seen) == 50)
    assert len(set(seen)) <= 2, seen  # a loop's own clock may tick between two of them


async def test_a_timer_calls_in_the_context_of_whoever_set_it(host: Host) -> None:
    """Where a log goes to depends on that."""
    whose: contextvars.ContextVar[str] = contextvars.ContextVar("whose")
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def one(name: str) -> None:
        whose.set(name)
        call_at(now_ms() + HOUR_MS, lambda: told.set_result(whose.get()))

    first = call_at(now_ms() + 2 * HOUR_MS, lambda: None)
    await asyncio.create_task(one("w1"))
    host.was_suspended(HOUR_MS)
    assert await asyncio.wait_for(told, DEADLINE_S) == "w1"
    first.cancel()


async def test_nothing_goes_on_when_nobody_waits() -> None:
    called = Called()
    call_at(now_ms(), called)
    await called.soon()
    mine = timers._TIMERS[asyncio.get_running_loop()]
    await eventually(lambda: not mine._looking)
