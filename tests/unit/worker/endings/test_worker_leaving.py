"""What a worker's record says of its absence: how long its return would take, and, before it leaves, why."""

from __future__ import annotations

import asyncio

import pytest
from waiting import eventually
from worker_life import GONE, ME, Life, living

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.records import ControlAction, ControlRecord, TaskKind, WorkerPhase, WorkerStatus
from airflow_provider.worker import worker as worker_module
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.settings import Until

pytestmark = pytest.mark.turned_clock


def said(life: Life) -> WorkerStatus:
    return life.topics.status.workers[ME]


class Witness:
    """What the worker's record said when the coordinator heard that it leaves."""

    def __init__(self, life: Life) -> None:
        self.record: WorkerStatus | None = None
        self._life = life
        life.coordinator.when_left = self._look

    def _look(self) -> None:
        self.record = said(self._life)


async def test_why_it_leaves_is_stored_before_the_coordinator_hears_of_it() -> None:
    async with living() as life:
        witness = Witness(life)
        member_id = life.member.state.member_id
        life.topics.takes_s = 0.1
        life.worker.leave("enough", Absence(left=LeaveReason.RESTARTING, returns_ms=7_000))
        await life.outcome()
        assert witness.record is not None
        assert witness.record.state is WorkerPhase.STOPPING
        for record in (witness.record, said(life)):
            assert (record.left, record.returns_ms) == (LeaveReason.RESTARTING, 7_000)
            assert record.member_id == member_id != ""
        assert said(life).state is WorkerPhase.LEFT


async def test_what_cannot_be_written_keeps_it_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_FAREWELL_S", 0.2)
    async with living() as life:
        stuck = asyncio.Event()
        monkeypatch.setattr(life.topics, "publish_worker", lambda _status: stuck.wait())
        began = now_ms()
        life.worker.leave("enough")
        await eventually(lambda: life.coordinator.left == ["enough"], "it leaves all the same")
        assert now_ms() - began >= 200
        stuck.set()
        await life.outcome()


async def test_what_fails_to_be_written_does_not_keep_it() -> None:
    async with living() as life:
        life.topics.failing = TopicError("no luck")
        life.worker.leave("enough")
        await eventually(lambda: life.coordinator.left == ["enough"])
        life.topics.failing = None
        await life.outcome()


@pytest.mark.parametrize(
    ("action", "left"), [(ControlAction.STOP, LeaveReason.STOPPED), (ControlAction.DRAIN, LeaveReason.DRAINED)]
)
async def test_whoever_is_asked_to_go_says_so(action: ControlAction, left: LeaveReason) -> None:
    life = Life()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    await life.topics.publish_control(ControlRecord(worker=ME, action=action, at_ms=wall_ms()))
    assert (await life.outcome()).ending is Ending.LEFT
    assert said(life).left is left


async def test_whoever_has_done_its_work_says_so() -> None:
    life = Life(until=Until.DRAINED)
    await life.submit(tasks=0)
    life.begin()
    assert (await life.outcome()).ending is Ending.DRAINED
    assert said(life).left is LeaveReason.DRAINED


@pytest.mark.parametrize("returns_ms", [None, 0, 5_000])
async def test_from_its_first_word_on_it_says_how_long_its_return_would_take(returns_ms: int | None) -> None:
    life = Life(returns_ms=returns_ms)
    await life.submit(kind=TaskKind.STREAMING)
    life.coordinator.away = GONE
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.JOINING)
    assert (said(life).returns_ms, said(life).left, said(life).member_id) == (returns_ms, None, "")
    life.coordinator.away = None
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    assert (said(life).returns_ms, said(life).left) == (returns_ms, None)
    await life.cancel()


async def test_who_has_left_says_nothing_of_it_when_it_is_back() -> None:
    life = Life()
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    life.worker.leave("enough")
    await life.outcome()
    assert said(life).left is LeaveReason.STOPPED
    life.begin()
    await eventually(lambda: life.phase is WorkerPhase.STABLE)
    assert said(life).left is None
    await life.cancel()
