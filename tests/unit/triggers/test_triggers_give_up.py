"""What ends the wait of a trigger, and what does not: its connection, and its broker's refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow_values import group_snapshot
from trigger_bench import SETTINGS, Triggerer, events_of
from waiting import DEADLINE_S

from airflow_provider.group.live import shared
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import RefusedError
from airflow_provider.triggers.conditions import EpochCondition
from airflow_provider.triggers.group import GroupTrigger, check_not_given_up

pytestmark = pytest.mark.turned_clock


@pytest.fixture
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    return Triggerer(monkeypatch)


async def test_what_lasts_is_told_to_the_task_which_then_fails_without_retries(
    triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched_topics(_settings: KafkaSettings, _group: str) -> Any:
        raise RefusedError("broker:9092", "SASL authentication failed", "check sasl.password")

    monkeypatch.setattr(shared, "watched_topics", watched_topics)
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json())
    (event,) = await asyncio.wait_for(events_of(trigger), DEADLINE_S)
    with pytest.raises(AirflowFailException, match=r"SASL authentication failed; check sasl\.password"):
        check_not_given_up(event.payload)


async def test_a_connection_that_is_gone_when_a_triggerer_starts_is_waited_for(
    triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Exception | KafkaSettings] = [SettingsError("c", "", "is not defined")] * 2

    async def aget_settings(_hook: SparkGroupHook) -> KafkaSettings:
        answer = answers.pop() if answers else SETTINGS
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(SparkGroupHook, "aget_settings", aget_settings)
    triggerer.topics.now(status=group_snapshot(3))
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json())
    assert len(await asyncio.wait_for(events_of(trigger), DEADLINE_S)) == 1
    assert caplog.text.count("Waiting until connection 'c' can be used: connection 'c': is not defined") == 1
