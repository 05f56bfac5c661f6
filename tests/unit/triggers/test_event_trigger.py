"""The trigger of an asset watcher, in Airflow's own manager of shared streams: what it fires, and where it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import TriggerEvent
from watched_group import WatchedGroup, failed

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.triggers.group_event import GroupEventTrigger

pytestmark = pytest.mark.turned_clock


def trigger(**changes: Any) -> GroupEventTrigger:
    return GroupEventTrigger(**{"group": "g", "events": ["task_failed"], "kafka_conn_id": "c", **changes})


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> WatchedGroup:
    return WatchedGroup(monkeypatch)


class Triggerer:
    """Airflow's: what it has been told, and which of that it has stored. It says so when the test has it do that."""

    def __init__(self, watcher: GroupEventTrigger) -> None:
        self.fired: list[dict[str, Any]] = []
        self.perhaps_again: list[bool] = []
        self.times = 0
        streams = pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow has them since 3.3")
        self.manager = streams.SharedStreamManager(ack_timeout=3600)
        self._unconfirmed: list[int] = []
        self._key = watcher.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=1, trigger=watcher, key=self._key)
        self._running = asyncio.ensure_future(self._run(watcher.filter_shared_stream(stream)))

    async def _run(self, events: AsyncIterator[TriggerEvent]) -> None:
        async for event in events:
            self.fired += event.payload["events"]
            self.perhaps_again += [event.payload["perhaps_again"]] * len(event.payload["events"])
            self.times += 1
            seq = self.manager.bind_pending_event(trigger_id=1, key=self._key)
            assert seq is not None
            self._unconfirmed.append(seq)

    async def fires(self, *tasks: int) -> None:
        await until(lambda: self.tasks() == list(tasks), lambda: f"{self.tasks()}, not {tasks}")

    def tasks(self) -> list[int]:
        return [event["task"] for event in self.fired]

    def stores(self) -> None:
        self.manager.confirm_persisted(self._unconfirmed)
        self._unconfirmed.clear()

    async def dies(self) -> None:
        """As by SIGKILL: nothing that is under way is brought to its end."""
        self._running.cancel()
        for group in self.manager._groups.values():
            group._outstanding.clear()
            group._lane_queues.clear()
        await self.manager.stop_all()
        await asyncio.wait([self._running])


@asynccontextmanager
async def triggerer(watcher: GroupEventTrigger) -> AsyncIterator[Triggerer]:
    one = Triggerer(watcher)
    try:
        yield one
    finally:
        await one.dies()


async def until(holds: Any, what: Any = lambda: "not so") -> None:
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(what())


async def test_what_happens_from_now_on_fires_and_is_marked_when_it_is_stored(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 1)
        group.write(b"none of ours", failed(1))
        await airflow.fires(1)
        assert airflow.fired[0]["event"] == "task_failed"
        assert (airflow.fired[0]["group"], airflow.fired[0]["job"]) == ("g", "job")
        await asyncio.sleep(30)
        assert group.mark() == 1, "Airflow has not stored it yet"
        airflow.stores()
        await until(lambda: group.mark() == 3)


async def test_a_connection_that_is_missing_is_waited_for_and_said_once(
    group: WatchedGroup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usable, asked = SparkGroupHook.aget_settings, list[int]()

    async def missing_at_first(hook: SparkGroupHook) -> KafkaSettings:
        asked.append(1)
        if len(asked) < 4:
            raise SettingsError("c", "", "it is missing")
        return await usable(hook)

    monkeypatch.setattr(SparkGroupHook, "aget_settings", missing_at_first)
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() is not None)
        group.write(failed(3))
        await airflow.fires(3)
    said = [record.getMessage() for record in caplog.records if "can be used" in record.getMessage()]
    assert len(said) == 1, said
    assert "missing" in said[0]
    assert len(asked) >= 4


async def test_a_group_that_begins_later_is_watched_from_its_beginning(group: WatchedGroup) -> None:
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 0)
        group.write(failed(0), failed(1))
        await airflow.fires(0, 1)


async def test_the_next_triggerer_goes_on_where_the_last_one_was_left(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as first:
        await until(lambda: group.mark() == 1)
        group.write(failed(1))
        await first.fires(1)
        first.stores()
        await until(lambda: group.mark() == 2)
    group.write(failed(2), failed(3))
    async with triggerer(trigger()) as second:
        await second.fires(2, 3)


async def test_what_was_not_known_to_be_stored_is_told_again_with_the_same_id(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as first:
        await until(lambda: group.mark() == 1)
        group.write(failed(1))
        await first.fires(1)
    async with triggerer(trigger()) as second:
        await second.fires(1)
        assert second.fired == first.fired
        assert (first.perhaps_again, second.perhaps_again) == ([False], [True])


async def test_one_that_was_taken_for_dead_does_not_tell_what_its_successor_has_told(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as stalled:
        await until(lambda: group.mark() == 1)
        feeds, group.feeds = group.feeds, []  # it hears of nothing for a while
        async with triggerer(trigger()) as successor:
            await until(lambda: bool(group.feeds))
            group.write(failed(1), failed(2))
            await successor.fires(1, 2)
            successor.stores()
            await until(lambda: group.mark() == 3)
        group.feeds += feeds
        for feed in feeds:
            group._give(feed, 1)
        group.write(failed(3))
        await stalled.fires(3)


async def test_a_bookmark_never_moves_back(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as stalled:
        await until(lambda: group.mark() == 1)
        group.write(failed(1))
        await stalled.fires(1)
        (name,) = group.marks
        group.marks[name] = 9
        stalled.stores()
        await asyncio.sleep(300)
        assert group.mark() == 9


async def test_a_broker_that_is_away_is_waited_for_and_nothing_is_told_twice(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 1)
        group.write(failed(1))
        await airflow.fires(1)
        group.away = TopicError("no broker")
        airflow.stores()
        await asyncio.sleep(60)
        group.away = None
        await until(lambda: group.mark() == 2)
        group.write(failed(2))
        await airflow.fires(1, 2)


async def test_a_topic_that_is_made_anew_is_read_from_its_beginning(group: WatchedGroup) -> None:
    group.write(failed(0), failed(1))
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 2)
        group.delete_topic()
        group.write(failed(5))
        await airflow.fires(5)
        airflow.stores()
        await until(lambda: group.mark() == 1)
    group.delete_topic()
    async with triggerer(trigger()) as later:
        await until(lambda: group.mark() == 0)
        group.write(failed(6))
        await later.fires(6)


async def test_what_is_stored_of_another_topic_moves_no_bookmark_in_this_one(group: WatchedGroup) -> None:
    group.write(*map(failed, range(5)))
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 5)
        group.write(failed(5))
        await airflow.fires(5)
        group.feeds.clear()
        group.records = [failed(6)]
        group.settings = KafkaSettings.from_extra({"bootstrap.servers": "elsewhere:9092"}, conn_id="c")
        await until(lambda: group.mark() == 0)
        airflow.stores()
        await airflow.fires(5, 6)
        airflow.stores()
        await until(lambda: group.mark() == 1)


async def test_a_topic_that_was_made_anew_once_is_told_once(group: WatchedGroup) -> None:
    group.write(failed(0), failed(1))
    feed = group.share_a_feed()
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 2)
        group.delete_topic()
        group.write(failed(2), failed(3))
        await airflow.fires(2, 3)
        airflow.stores()
        await until(lambda: group.mark() == 2)
        async with triggerer(trigger(name="new")) as new:
            await asyncio.sleep(30)
            assert new.tasks() == []
        group.feeds.remove(feed)
        group.share_a_feed()
        feed.fail(TopicError("it can't be read for a moment"))
        group.write(failed(4))
        await airflow.fires(2, 3, 4)


async def test_a_topic_that_is_made_anew_while_nobody_can_read_it_is_read_from_its_beginning(
    group: WatchedGroup,
) -> None:
    group.write(failed(0), failed(1))
    feed = group.share_a_feed()
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 2)
        group.feeds.remove(feed)
        group.records = [failed(2)]
        group.share_a_feed()
        feed.fail(TopicError("it can't be read for a moment"))
        await airflow.fires(2)
        airflow.stores()
        await until(lambda: group.mark() == 1)


async def test_many_events_at_once_are_told_together_and_the_next_ones_later(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()) as airflow:
        await until(lambda: group.mark() == 1)
        group.write(*(failed(number) for number in range(1, 251)))
        await airflow.fires(*range(1, 101))
        group.write(failed(251))
        await asyncio.sleep(60)
        assert airflow.times == 1, "Airflow has not stored it yet"
        airflow.stores()
        await asyncio.sleep(4)
        assert airflow.times == 1, "no run has been made of it yet"
        await airflow.fires(*range(1, 201))
        airflow.stores()
        await airflow.fires(*range(1, 252))
        airflow.stores()
        await until(lambda: group.mark() == 252)
        assert airflow.times == 3


async def test_only_what_is_watched_fires_and_the_bookmark_goes_on_all_the_same(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger(job="other")) as airflow:
        await until(lambda: group.mark() == 1)
        group.write(failed(1))
        await until(lambda: group.mark() == 2)
        assert airflow.fired == []


async def test_an_idle_bookmark_is_put_again_before_a_broker_forgets_it(group: WatchedGroup) -> None:
    group.write(failed(0))
    async with triggerer(trigger()):
        await until(lambda: group.mark() == 1)
        await asyncio.sleep(24 * 60 * 60)
        assert set(group.puts) == {1}
        assert 2 <= len(group.puts) <= 6


async def test_an_airflow_without_shared_streams_has_it_marked_some_seconds_later(group: WatchedGroup) -> None:
    group.write(failed(0))
    running = trigger().run()
    coming = asyncio.ensure_future(anext(running))
    await until(lambda: group.mark() == 1)
    group.write(failed(1), failed(2))
    assert [event["task"] for event in (await coming).payload["events"]] == [1, 2]
    coming = asyncio.ensure_future(anext(running))
    await asyncio.sleep(5)
    assert group.mark() == 1
    await asyncio.sleep(10)
    assert group.mark() == 3
    group.write(failed(3))
    assert [event["task"] for event in (await coming).payload["events"]] == [3]
    coming = asyncio.ensure_future(anext(running))
    coming.cancel()
    await asyncio.wait([coming])


async def test_an_airflow_without_shared_streams_goes_on_after_a_broker_that_was_away_for_long(
    group: WatchedGroup,
) -> None:
    running = trigger().run()
    coming = asyncio.ensure_future(anext(running))
    await until(lambda: group.mark() == 0)
    group.write(failed(1))
    assert [event["task"] for event in (await coming).payload["events"]] == [1]
    coming = asyncio.ensure_future(anext(running))
    group.away = TopicError("no broker")
    await asyncio.sleep(600)
    group.away = None
    group.write(failed(2))
    await until(coming.done)
    assert [event["task"] for event in (await coming).payload["events"]] == [2]
    await running.aclose()


def test_what_is_stored_of_it_makes_it_again() -> None:
    watcher = trigger(events=("worker_lost", "rebalanced"), job="count", name="mine")
    path, arguments = watcher.serialize()
    assert path == "airflow_provider.triggers.group_event.GroupEventTrigger"
    again = GroupEventTrigger(**json.loads(json.dumps(arguments)))
    assert again.serialize() == watcher.serialize()
    assert again.watched == watcher.watched
    assert again.shared_stream_key() == watcher.shared_stream_key()
    before_3_2 = find_spec("airflow.serialization.encoders") is None
    module, encode = ("serialized_objects", "_encode_trigger") if before_3_2 else ("encoders", "encode_trigger")
    asset = Asset("a", watchers=[AssetWatcher(name="w", trigger=watcher)])
    encoded = getattr(import_module(f"airflow.serialization.{module}"), encode)(asset.watchers[0].trigger)
    assert encoded["classpath"] == path


def test_a_bookmark_is_named_for_what_is_watched_or_as_the_author_says() -> None:
    names = [
        trigger(**changes).watched.bookmark
        for changes in ({}, {"events": ["rebalanced"]}, {"job": "j"}, {"kafka_conn_id": "d"}, {"group": "h"})
    ]
    assert len(set(names)) == len(names)
    assert all(name.split(".")[1] == "watcher" for name in names)
    assert names[0] == "g.watcher.9f5a0cd321af", "it must find again what an older release has left"
    assert trigger(name="mine").watched.bookmark == "g.watcher.mine"
    assert trigger(name="mine", events=["rebalanced"]).watched.bookmark == "g.watcher.mine"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"events": ["job_done"]}, "events: 'job_done' is not a valid EventKind; there are rebalanced, job_finished"),
        ({"events": []}, "events: names none of rebalanced"),
        ({"events": "rebalanced"}, "events: must be a list of rebalanced"),
        ({"group": "a b"}, "group"),
        ({"kafka_conn_id": ""}, "kafka_conn_id"),
        ({"v": 99}, "GroupEventTrigger"),
    ],
)
def test_what_is_wrong_is_said_when_the_dag_is_parsed(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        trigger(**wrong)
