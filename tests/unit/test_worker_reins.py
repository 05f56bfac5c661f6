"""A process has its worker leave, or go on elsewhere, whether or not it holds the worker just now."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider.assignors.model import Absence, LeaveReason
from airflow_provider.worker.ending import STOPPED
from airflow_provider.worker.reins import Reins

KILLED = Absence(left=LeaveReason.KILLED)


class Told:
    """A worker that notes what is asked of it."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def leave(self, reason: str, absence: Absence) -> None:
        self.heard.append((reason, absence))

    def hand_over(self) -> None:
        self.heard.append("hand over")


async def heard(reins: Reins) -> list[Any]:
    """What the next worker hears."""
    told = Told()
    worker: Any = told
    with reins.on(worker):
        assert told.heard == [], "it has not begun yet"
        await asyncio.sleep(0)
    return told.heard


async def test_whom_it_holds_hears_it_at_once() -> None:
    reins = Reins()
    worker: Any = Told()
    with reins.on(worker):
        await asyncio.sleep(0)
        reins.hand_over()
        reins.leave("enough")
        reins.leave("too late", KILLED)
    assert worker.heard == ["hand over", ("enough", STOPPED)]
    assert reins.worker is None


async def test_told_before_it_holds_one_the_next_hears_it_and_the_one_after() -> None:
    reins = Reins()
    assert await heard(reins) == []
    reins.hand_over()
    reins.leave("killed", KILLED)
    assert reins.leaving
    assert await heard(reins) == await heard(reins) == [("killed", KILLED)], "to leave is more than to go elsewhere"


async def test_where_it_was_to_go_it_stays() -> None:
    reins = Reins()
    reins.hand_over()
    assert await heard(reins) == ["hand over"]
    reins.arrived()
    assert await heard(reins) == []
