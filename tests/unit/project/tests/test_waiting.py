"""A wait of a test ends when nothing comes of it, and gives a machine that becomes busy its time."""

from __future__ import annotations

import asyncio
import os

import pytest
import waiting
from turned_clock import time_passes
from waiting import DEADLINE_S, SLOWNESS, eventually

pytestmark = pytest.mark.turned_clock


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_PAUSE_S", "_LONGEST_TURN_S"):
        monkeypatch.setattr(waiting, pause, 1.0)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads want a core."""
    others = [0]
    monkeypatch.setattr(waiting, "_others", lambda: others[0])
    monkeypatch.setattr(waiting, "_SLOWEST", 100 * SLOWNESS)
    return others


def so_many(slowness: float) -> int:
    return round(slowness * (os.cpu_count() or 1)) - 1


async def waits() -> float:
    """How long it waits for what never comes."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises(AssertionError):
        await eventually(lambda: False)
    return loop.time() - began_s


@pytest.mark.parametrize(
    ("times", "as_long"), [(0.0, 1), (1.0, 1), (2.0, 2), (30.0, 3)], ids=["idle", "as before", "busier", "busy"]
)
async def test_a_wait_takes_longer_if_the_machine_has_become_busier_and_is_never_shorter(
    others: list[int], times: float, as_long: int
) -> None:
    others[0] = so_many(times * SLOWNESS)
    assert await waits() == pytest.approx(as_long * DEADLINE_S, rel=0.3)


async def test_what_is_late_only_while_the_machine_is_busy_is_in_time(others: list[int]) -> None:
    others[0] = so_many(10 * SLOWNESS)
    late = asyncio.create_task(time_passes(2 * DEADLINE_S))
    await eventually(late.done)
    others[0] = 0
    assert await waits() == pytest.approx(DEADLINE_S, rel=0.1)


async def test_how_things_stand_is_told_as_of_the_end() -> None:
    stands: list[str] = []
    asyncio.get_running_loop().call_later(1, stands.append, "better")
    with pytest.raises(AssertionError, match=r"not within \d+ s.*: \['better'\]"):
        await eventually(lambda: False, lambda: stands)
