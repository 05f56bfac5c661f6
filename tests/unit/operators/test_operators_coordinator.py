"""A coordinator as a task: it defers, and its trigger serves until it is cancelled or people must act."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from waiting import eventually

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server import candidates
from airflow_provider.group.declarative.server.server import ShardObserver
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException, TaskDeferred
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.operators.spark_coordinator import SparkCoordinatorOperator
from airflow_provider.triggers import coordinator as coordinator_module
from airflow_provider.triggers.coordinator import CoordinatorTrigger

SETTINGS = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="kafka")
CONTEXT: Any = {}


class Server:
    """What a coordinator shows."""

    refusal: Exception | None = None
    said: list[Any]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    serving = Server()
    serving.said = []

    @asynccontextmanager
    async def connection_of(kafka_conn_id: str) -> AsyncIterator[str]:
        yield kafka_conn_id

    async def with_its_settings(connection: str, work: Any) -> Any:
        assert connection == "kafka"
        return await work(SETTINGS)

    @asynccontextmanager
    async def candidate(
        settings: KafkaSettings, coordinator: CoordinatorSettings, observer: ShardObserver | None
    ) -> AsyncIterator[Server]:
        serving.said.append((settings, coordinator))
        try:
            yield serving
        finally:
            serving.said.append("closed")

    monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
    monkeypatch.setattr(coordinator_module, "connection_of", connection_of)
    monkeypatch.setattr(coordinator_module, "with_its_settings", with_its_settings)
    monkeypatch.setattr(coordinator_module, "_LOOK_S", 0.01)
    monkeypatch.setattr(candidates, "candidate", candidate)
    return serving


def deferred(operator: SparkCoordinatorOperator) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(CONTEXT)
    return raised.value


def trigger_of(operator: SparkCoordinatorOperator) -> CoordinatorTrigger:
    """As a triggerer makes it, of what is stored."""
    path, kwargs = deferred(operator).trigger.serialize()
    assert path == "airflow_provider.triggers.coordinator.CoordinatorTrigger"
    return CoordinatorTrigger(**kwargs)


async def first_event(trigger: CoordinatorTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    return None


async def test_it_coordinates_in_the_triggerer_until_it_is_cancelled(server: Server) -> None:
    operator = SparkCoordinatorOperator(task_id="c", session_timeout=50, heartbeat_interval=2, kafka_conn_id="kafka")
    running = asyncio.ensure_future(first_event(trigger_of(operator)))
    await eventually(lambda: server.said)
    expected = CoordinatorSettings(session_timeout_ms=50_000, heartbeat_interval_ms=2_000)
    assert server.said == [(SETTINGS, expected)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert server.said[1:] == ["closed"]


async def test_what_people_must_do_fails_the_task_without_retries(server: Server) -> None:
    server.refusal = RuntimeError("grant READ")
    operator = SparkCoordinatorOperator(task_id="c", kafka_conn_id="kafka")
    event = await first_event(trigger_of(operator))
    with pytest.raises(AirflowFailException, match="grant READ"):
        getattr(operator, deferred(operator).method_name)(CONTEXT, event)


def test_times_that_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="session_timeout: 3 must be longer"):
        SparkCoordinatorOperator(task_id="c", session_timeout=3, heartbeat_interval=3)
