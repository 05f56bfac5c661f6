"""What 2,000 tasks cost a group besides their work, in counts: nothing here depends on how fast the machine is."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any, cast

import pytest
from stand_ins import LonelyCoordinator, MemoryTopics
from waiting import DEADLINE_S
from worker_life import LONG, MEMBER

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.kafka.topics.producer import NewRecord
from airflow_provider.state.records import JobDefinition, decode
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker

pytestmark = pytest.mark.turned_clock

TASKS = 2_000


class CountedTopics(MemoryTopics):
    """Counts the records of the status topic, by what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.written: Counter[str] = Counter()
        self.writes = 0

    async def _write_all(self, *records: NewRecord) -> None:
        self.writes += 1
        await super()._write_all(*records)

    async def _write(self, topic: str, key: str, value: bytes | None) -> None:
        if topic == self.names.status and value is not None:
            kind = key.partition(":")[0]
            self.written[decode(value)["state"] if kind == "task" else kind] += 1
        await super()._write(topic, key, value)


@pytest.mark.slow
@pytest.mark.no_cover  # so many tasks say no more of that than a few
async def test_two_thousand_tasks_take_two_records_each_and_two_rounds() -> None:
    topics, coordinator = CountedTopics(), LonelyCoordinator()
    member, transport = replace(MEMBER, **LONG), cast("Any", coordinator)
    settings = WorkerSettings(member=member, until=Until.DRAINED, slots=20)
    equipment = Equipment(runner="noop", allowed=(), checkpoint_root="/checkpoints", spark_master="")
    worker = Worker(
        settings,
        topics=topics,
        memberships=ClassicMemberships(member, transport, topics, policy=Deferred()),
        make_hands=InThisProcess(equipment).make_hands(settings, topics),
    )
    await topics.submit(
        JobDefinition(name="a", entry_point="noop:job", config={"seconds": 0}, max_tasks=TASKS, run_key="r")
    )
    outcome = await asyncio.wait_for(worker.run(), DEADLINE_S)
    assert outcome.ending is Ending.DRAINED
    assert (topics.written["running"], topics.written["finished"]) == (TASKS + 1, TASKS + 1), "with the planner"
    assert (coordinator.generation, topics.written["group"]) == (2, 2), "for the planner, and for its tasks"
    assert topics.written["pending"] == topics.written["stopped"] == 0
    assert topics.written["worker"] <= 6
    assert topics.writes <= 2 * TASKS + 20, "an event goes with its record"
