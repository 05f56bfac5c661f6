"""When a worker writes its own record again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from stand_ins import MemoryTopics
from waiting import eventually
from worker_life import ME, MEMBER

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.records.envelope import PACKED_VERSION
from airflow_provider.values.model import NO_TASKS, UNKNOWN_MEMBER_ID, Epoch
from airflow_provider.worker.reporting.journal import Journal
from airflow_provider.worker.reporting.own_record import OwnRecord
from airflow_provider.worker.settings import Until, WorkerSettings


async def test_it_tells_leaders_that_the_worker_reads_packed_rounds() -> None:
    topics = MemoryTopics()
    await _own_record(topics, _hands()).write_until_stored()
    assert topics.status.workers[ME].reads == PACKED_VERSION


async def test_it_is_written_again_once_if_tasks_wait_until_it_is_read_back() -> None:
    topics, hands = MemoryTopics(), _hands()
    record = _own_record(topics, hands)
    record.phase = WorkerPhase.STABLE
    await record.write_until_stored()

    def written_ms() -> int:
        return topics.status.workers[ME].at_ms

    first_ms = written_ms()
    record.write_news()
    await asyncio.sleep(0.01)
    assert written_ms() == first_ms, "nothing waits"
    hands.awaits_own_record_since_ms = wall_ms()
    record.write_news()
    await eventually(lambda: written_ms() >= hands.awaits_own_record_since_ms)
    again_ms = written_ms()
    await asyncio.sleep(0.01)
    record.write_news()
    await asyncio.sleep(0.01)
    assert written_ms() == again_ms


def _own_record(topics: MemoryTopics, hands: Any) -> OwnRecord:
    settings = WorkerSettings(member=MEMBER, until=Until.FOREVER)
    view: Any = SimpleNamespace(epoch=Epoch(1), owned=NO_TASKS, member_id=UNKNOWN_MEMBER_ID)
    return OwnRecord(settings, topics, Journal(ME), view=lambda: view, hands=lambda: hands)


def _hands() -> Any:
    return SimpleNamespace(
        awaits_own_record_since_ms=0, condition="", unable="", blamed="", spark_ui="", running=NO_TASKS, learning={},
        failed_warm_ups={}, warm_up_deaths={}, allowed=None, time_zone="", python_time_zone="",
    )  # fmt: skip
