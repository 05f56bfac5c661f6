"""Connections to a broker are opened a few at a time, and nobody waits for one that can't be opened."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider.kafka.wire.openings import Openings


class Broker:
    """Lets connections be opened when the test says so."""

    def __init__(self) -> None:
        self.opening: list[asyncio.Future[str]] = []

    async def open(self) -> str:
        self.opening.append(asyncio.get_running_loop().create_future())
        return await self.opening[-1]


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_next_is_opened_when_one_is_open() -> None:
    broker, openings = Broker(), Openings(at_once=2)
    asked = [asyncio.ensure_future(openings.turn(broker.open)) for _ in range(4)]
    await _turns()
    assert len(broker.opening) == 2
    broker.opening[1].set_result("second")
    await _turns()
    assert len(broker.opening) == 3
    assert await asked[1] == "second"
    for number in (0, 2):
        broker.opening[number].set_result(str(number))
        await _turns()
    broker.opening[3].set_result("last")
    assert await asyncio.gather(*asked) == ["0", "second", "2", "last"]
    asked = [asyncio.ensure_future(openings.turn(broker.open)) for _ in range(3)]
    await _turns()
    assert len(broker.opening) == 6, "there is room for two again"
    for each in asked:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_one_that_cannot_be_opened_tells_all_who_wait_and_the_next_try_is_made() -> None:
    broker, openings = Broker(), Openings(at_once=1)
    asked = [asyncio.ensure_future(openings.turn(broker.open)) for _ in range(3)]
    await _turns()
    broker.opening[0].set_exception(OSError("nobody there"))
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(each) for each in failed] == ["nobody there"] * 3
    assert len(broker.opening) == 1
    again = asyncio.ensure_future(openings.turn(broker.open))
    await _turns()
    broker.opening[1].set_result("open")
    assert await again == "open"


@pytest.mark.parametrize("when", ["waiting", "admitted", "opening"])
async def test_whoever_gives_up_keeps_nobodys_place(when: str) -> None:
    broker, openings = Broker(), Openings(at_once=1)
    first, second, third = (asyncio.ensure_future(openings.turn(broker.open)) for _ in range(3))
    await _turns()
    if when == "waiting":
        second.cancel()
    broker.opening[0].set_result("first")
    if when == "admitted":
        await asyncio.sleep(0)
        second.cancel()
    if when == "opening":
        await _turns()
        second.cancel()
    await _turns()
    broker.opening[-1].set_result("third")
    assert await asyncio.wait_for(first, 1) == "first"
    assert await asyncio.wait_for(third, 1) == "third"
    assert second.cancelled()
