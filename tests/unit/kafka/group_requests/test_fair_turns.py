"""A crowd goes through a few at a time, and the event loop has time for others in between."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider.kafka.group_requests.fair_turns import Turnstile


async def _crowd(turnstile: Turnstile, size: int, through: list[int]) -> list[asyncio.Task[None]]:
    async def one(number: int) -> None:
        await turnstile.enter()
        through.append(number)

    return [asyncio.ensure_future(one(number)) for number in range(size)]


@pytest.mark.slow
async def test_a_crowd_goes_through_in_its_order_and_never_more_in_a_turn_than_there_is_room_for() -> None:
    through: list[int] = []
    tasks = await _crowd(Turnstile(10), 500, through)
    most, turns = 0, 0
    while len(through) < 500:
        before = len(through)
        await asyncio.sleep(0)
        most, turns = max(most, len(through) - before), turns + 1
        assert turns < 200, "it stands still"
    assert most <= 10
    assert through == list(range(500))
    await asyncio.gather(*tasks)


async def test_whoever_comes_alone_does_not_wait() -> None:
    turnstile = Turnstile(1)
    for _ in range(3):
        entering = turnstile.enter()
        try:
            entering.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it waits")
        for _ in range(3):
            await asyncio.sleep(0)


async def test_whoever_gives_up_takes_nobodys_place() -> None:
    through: list[int] = []
    tasks = await _crowd(Turnstile(1), 20, through)
    await asyncio.sleep(0)
    for task in tasks[1:19]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert through == [0, 19]
    assert len(asyncio.all_tasks()) == 1
