"""A trigger may live longer than the password with which it began."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow_values import group_snapshot
from trigger_bench import HANDED_OVER, SAVED, SETTINGS, Triggerer, events_of, worker_trigger
from turned_clock import time_passes
from waiting import DEADLINE_S, eventually

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.triggers import connections
from airflow_provider.triggers.conditions import EpochCondition
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.worker.endings.ending import KILLED, Ending

pytestmark = pytest.mark.turned_clock

ROTATED = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092", "sasl.password": "hunter3"}, conn_id="c")


@pytest.fixture
async def triggerer(monkeypatch: pytest.MonkeyPatch) -> Triggerer:
    monkeypatch.setattr(connections, "_LOOK_AGAIN_S", 0.01)
    return Triggerer(monkeypatch)


async def test_a_deferred_worker_goes_on_as_the_same_member_with_new_credentials(triggerer: Triggerer) -> None:
    running = await triggerer.start(worker_trigger())
    triggerer.settings = ROTATED
    await eventually(lambda: triggerer.used == [SETTINGS, ROTATED] and len(triggerer.saved) == 2)
    assert triggerer.saved == [SAVED, HANDED_OVER]
    assert not running.done(), "its task is not resumed for that"
    assert triggerer.worker
    triggerer.worker.end(Ending.DRAINED)
    assert len(await asyncio.wait_for(running, DEADLINE_S)) == 1
    assert not connections._CONNECTIONS[asyncio.get_running_loop()], "nobody looks any more"


async def test_a_trigger_that_fails_as_it_is_told_keeps_no_other_from_new_credentials(triggerer: Triggerer) -> None:
    def fails() -> None:
        raise ValueError("a fault")

    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault["exception"]))
    other = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092", "sasl.password": "hunter4"}, conn_id="c")
    told: list[KafkaSettings] = []
    async with connections.connection_of("c") as connection:
        forget = (
            connection.when_other_than(SETTINGS, fails),
            connection.when_other_than(SETTINGS, lambda: told.append(connection.settings)),
        )
        for triggerer.settings in (ROTATED, other):
            await eventually(lambda: told[-1:] == [triggerer.settings])
        for each in forget:
            each()
    assert [type(fault) for fault in faults] == [ValueError, ValueError]


async def test_credentials_that_no_broker_takes_are_not_used_and_told_of_once(
    triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    running = await triggerer.start(worker_trigger())
    triggerer.refused = [ROTATED]
    triggerer.settings = ROTATED
    await eventually(lambda: "Authentication failed" in caplog.text)
    await time_passes(10)
    assert caplog.text.count("Authentication failed") == 1
    assert "hunter3" not in caplog.text
    assert triggerer.used == [SETTINGS]
    triggerer.refused.clear()
    await eventually(lambda: triggerer.used == [SETTINGS, ROTATED], "when a broker does")
    await eventually(lambda: len(triggerer.saved) == 2)
    assert triggerer.worker
    triggerer.worker.end(Ending.DRAINED)
    await asyncio.wait_for(running, DEADLINE_S)


async def test_a_user_who_ends_the_task_meanwhile_ends_the_membership(triggerer: Triggerer) -> None:
    trigger = worker_trigger()
    running = await triggerer.start(trigger)
    triggerer.task_state = "failed"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    triggerer.settings = ROTATED
    await eventually(lambda: len(triggerer.saved) == 2)
    await asyncio.wait_for(trigger.on_kill(), DEADLINE_S)
    assert triggerer.worker
    assert triggerer.worker.outcome.result().ending is Ending.LEFT
    await trigger.cleanup()


async def test_a_user_who_ends_the_task_as_its_worker_is_handed_over_ends_the_membership(triggerer: Triggerer) -> None:
    """Nobody would resume the task, and the group would wait for a member that nobody drives."""
    trigger = worker_trigger()
    running = await triggerer.start(trigger)
    triggerer.task_state = "failed"
    first = triggerer.worker
    assert first
    first.end(Ending.HANDED_OVER, saved=HANDED_OVER)
    trigger._exit_requests.leave("its task was marked failed", KILLED)
    await asyncio.wait_for(running, DEADLINE_S)
    assert triggerer.saved == [SAVED, HANDED_OVER]
    assert triggerer.worker
    assert triggerer.worker is not first
    assert triggerer.worker.outcome.result().ending is Ending.LEFT


async def test_a_sensor_goes_on_with_new_credentials(triggerer: Triggerer) -> None:
    trigger = GroupTrigger(kafka_conn_id="c", group="g", condition=EpochCondition(at_least=2).to_json())
    running = asyncio.ensure_future(events_of(trigger))
    await eventually(lambda: triggerer.used == [SETTINGS])
    triggerer.settings = ROTATED
    await eventually(lambda: triggerer.used == [SETTINGS, ROTATED])
    triggerer.topics.now(status=group_snapshot(3))
    assert len(await asyncio.wait_for(running, DEADLINE_S)) == 1
    assert not triggerer.topics.listeners


async def test_a_trigger_that_begins_after_a_change_goes_by_what_the_connection_says_now(
    triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others may not have looked yet, and the old password may be gone."""
    monkeypatch.setattr(connections, "_LOOK_AGAIN_S", 600.0)
    running = await triggerer.start(worker_trigger())
    triggerer.settings = ROTATED
    begun = [asyncio.ensure_future(_settings_of_a_new_trigger()) for _ in range(3)]
    assert await asyncio.wait_for(asyncio.gather(*begun), DEADLINE_S) == [ROTATED] * 3
    assert triggerer.reached.count(ROTATED) == 1, "asked once for all"
    await eventually(lambda: triggerer.used == [SETTINGS, ROTATED], "the others go on with it, too")
    await eventually(lambda: len(triggerer.saved) == 2)
    assert triggerer.worker
    triggerer.worker.end(Ending.DRAINED)
    await asyncio.wait_for(running, DEADLINE_S)


async def test_what_no_broker_takes_is_not_used_by_a_trigger_that_begins_either(
    triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "_LOOK_AGAIN_S", 600.0)
    running = await triggerer.start(worker_trigger())
    triggerer.refused, triggerer.settings = [ROTATED], ROTATED
    for _ in range(2):
        assert await _settings_of_a_new_trigger() == SETTINGS
    assert triggerer.reached.count(ROTATED) == 1
    assert caplog.text.count("Authentication failed") == 1
    assert triggerer.worker
    triggerer.worker.end(Ending.DRAINED)
    await asyncio.wait_for(running, DEADLINE_S)


async def _settings_of_a_new_trigger() -> KafkaSettings:
    async with connections.connection_of("c") as connection:
        return connection.settings
