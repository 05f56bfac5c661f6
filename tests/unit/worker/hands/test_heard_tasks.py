"""Who wants to hear of a worker's tasks hears what their runner says of each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from stand_ins import LonelyCoordinator, MemoryTopics
from waiting import DEADLINE_S
from worker_life import LONG, MEMBER

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.spark.runner import RunnerEvent, ServersSilent, SparkEnded, TaskFinished, TaskStarted
from airflow_provider.state.records import JobDefinition
from airflow_provider.values.model import TaskId
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker

pytestmark = pytest.mark.turned_clock


async def test_each_start_and_end_is_heard_in_its_turn() -> None:
    topics = MemoryTopics()
    member, transport = replace(MEMBER, **LONG), cast("Any", LonelyCoordinator())
    settings = WorkerSettings(member=member, until=Until.DRAINED, slots=2)
    equipment = Equipment(runner="noop", allowed=(), checkpoint_root="/checkpoints", spark_master="")
    heard: list[tuple[TaskId, type[RunnerEvent]]] = []

    def hear(event: RunnerEvent) -> None:
        assert not isinstance(event, ServersSilent | SparkEnded), "it uses no Spark"
        heard.append((event.order.task, type(event)))

    place = InThisProcess(equipment, hear=hear)
    worker = Worker(
        settings,
        topics=topics,
        memberships=ClassicMemberships(member, transport, topics, policy=Deferred()),
        make_hands=place.make_hands(settings, topics),
    )
    await topics.submit(
        JobDefinition(name="a", entry_point="noop:job", config={"seconds": 0}, max_tasks=1, run_key="r")
    )
    outcome = await asyncio.wait_for(worker.run(), DEADLINE_S)
    assert outcome.ending is Ending.DRAINED
    planner, task = TaskId("a", -1), TaskId("a", 0)
    assert heard == [(planner, TaskStarted), (planner, TaskFinished), (task, TaskStarted), (task, TaskFinished)]
