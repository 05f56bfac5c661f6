"""Connections to a broker are opened a few at a time, and nobody waits for one that can't be opened."""

from __future__ import annotations

import asyncio

import pytest
from waiting import DEADLINE_S

from airflow_provider.kafka.group_requests import connection_limit as module
from airflow_provider.kafka.group_requests.connection_limit import Openings


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
    assert await asyncio.wait_for(first, DEADLINE_S) == "first"
    assert await asyncio.wait_for(third, DEADLINE_S) == "third"
    assert second.cancelled()


async def test_those_who_have_begun_together_go_on_together() -> None:
    broker, openings = Broker(), Openings(at_once=2)
    await asyncio.wait_for(openings.all_open(), DEADLINE_S)  # nobody else is there
    gone_on: list[int] = []

    async def join(number: int) -> None:
        await openings.turn(broker.open)
        await openings.all_open()
        gone_on.append(number)

    joining = [asyncio.ensure_future(join(number)) for number in range(3)]
    await _turns()
    for opening in (0, 1):
        broker.opening[opening].set_result("open")
        await _turns()
    assert gone_on == [], "the third one is still being opened"
    broker.opening[2].set_result("open")
    await asyncio.wait_for(asyncio.gather(*joining), DEADLINE_S)
    assert sorted(gone_on) == [0, 1, 2]


async def test_nobody_waits_long_for_one_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER_S", 0.01)
    broker, openings = Broker(), Openings()
    slow = asyncio.ensure_future(openings.turn(broker.open))
    await _turns()
    await asyncio.wait_for(openings.all_open(), DEADLINE_S)
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
