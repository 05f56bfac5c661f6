"""A process has its worker leave, or go on elsewhere, whether or not it holds the worker just now."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.worker.endings.ending import STOPPED
from airflow_provider.worker.exit_requests import ExitRequests

KILLED = Absence(left=LeaveReason.KILLED)


class Told:
    """A worker that notes what is asked of it."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def leave(self, reason: str, absence: Absence, confirm_within_s: float) -> None:
        self.heard.append((reason, absence, confirm_within_s) if confirm_within_s else (reason, absence))

    def confirm(self, absence: Absence) -> None:
        self.heard.append(absence)

    def hand_over(self) -> None:
        self.heard.append("hand over")


async def heard(exit_requests: ExitRequests) -> list[Any]:
    """What the next worker hears."""
    told = Told()
    worker: Any = told
    with exit_requests.on(worker):
        assert told.heard == [], "it has not begun yet"
        await asyncio.sleep(0)
    return told.heard


async def test_whom_it_holds_hears_it_at_once() -> None:
    exit_requests = ExitRequests()
    worker: Any = Told()
    with exit_requests.on(worker):
        await asyncio.sleep(0)
        exit_requests.hand_over()
        exit_requests.leave("enough")
        exit_requests.leave("too late", KILLED)
    assert worker.heard == ["hand over", ("enough", STOPPED)]
    assert exit_requests.worker is None


async def test_why_it_leaves_may_be_known_later() -> None:
    exit_requests = ExitRequests()
    exit_requests.confirm(KILLED)
    assert not exit_requests.leaving
    worker: Any = Told()
    with exit_requests.on(worker):
        await asyncio.sleep(0)
        exit_requests.leave("its process was told to end", STOPPED, 2.0)
        exit_requests.confirm(KILLED)
    assert worker.heard == [("its process was told to end", STOPPED, 2.0), KILLED]
    assert await heard(exit_requests) == [("its process was told to end", KILLED)]


async def test_told_before_it_holds_one_the_next_hears_it_and_the_one_after() -> None:
    exit_requests = ExitRequests()
    assert await heard(exit_requests) == []
    exit_requests.hand_over()
    exit_requests.leave("killed", KILLED)
    assert exit_requests.leaving
    assert await heard(exit_requests) == await heard(exit_requests) == [("killed", KILLED)], (
        "to leave is more than to go elsewhere"
    )


async def test_where_it_was_to_go_it_stays() -> None:
    exit_requests = ExitRequests()
    exit_requests.hand_over()
    assert await heard(exit_requests) == ["hand over"]
    exit_requests.arrived()
    assert await heard(exit_requests) == []
