"""Many triggers of one triggerer that want the same connection."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.triggers.connections import settings_of


class Airflow:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def aget_settings(self, conn_id: str) -> KafkaSettings:
        self.questions.append(conn_id)
        servers = await asyncio.shield(self.answer)
        return KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id=conn_id)


@pytest.fixture
async def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    airflow = Airflow()
    monkeypatch.setattr(SparkGroupHook, "aget_settings", lambda hook: airflow.aget_settings(hook.kafka_conn_id))
    return airflow


async def test_those_who_ask_at_once_share_an_answer_and_later_ones_get_a_new_one(airflow: Airflow) -> None:
    asking = [asyncio.ensure_future(settings_of(name)) for name in ("one", "one", "other", "one")]
    await asyncio.sleep(0)
    airflow.answer.set_result("broker:9092")
    assert len({id(settings) for settings in await asyncio.gather(*asking)}) == 2
    assert sorted(airflow.questions) == ["one", "other"]
    await settings_of("one")
    assert sorted(airflow.questions) == ["one", "one", "other"], "it may have been changed since"


async def test_a_trigger_that_is_cancelled_does_not_take_the_answer_from_the_others(airflow: Airflow) -> None:
    first, second = (asyncio.ensure_future(settings_of("one")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    airflow.answer.set_result("broker:9092")
    assert (await second).bootstrap_servers == "broker:9092"
    assert first.cancelled()


async def test_what_is_wrong_is_told_to_all_and_asked_again_the_next_time(airflow: Airflow) -> None:
    asking = [asyncio.ensure_future(settings_of("one")) for _ in range(2)]
    await asyncio.sleep(0)
    airflow.answer.set_exception(SettingsError("one", "extra", "is no JSON"))
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [SettingsError, SettingsError]
    airflow.answer = asyncio.get_running_loop().create_future()
    airflow.answer.set_result("broker:9092")
    await settings_of("one")
