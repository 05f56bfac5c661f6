"""A question that librdkafka loses is over in time, and the next one has another client."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from mock_brokers import MockBrokers, mock_brokers
from waiting import DEADLINE_S, eventually, wait_until

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.server import topic_watch
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.topic_watch import TopicWatch
from airflow_provider.kafka.topics.administration import lasting_admin, partition_ends
from airflow_provider.kafka.topics.administration.compaction import warn_of_deletion
from airflow_provider.kafka.topics.administration.lasting_admin import Answer, LastingAdmin
from airflow_provider.kafka.topics.administration.topic_admin import FoundTopic, TopicAdmin
from airflow_provider.kafka.topics.errors import BrokerAwayError, PassingError, RefusedError
from airflow_provider.kafka.topics.outage import Outage

LAYOUT = Layout(shards=4, replies=16)
SHORT_S = 0.2


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    with mock_brokers() as cluster:
        cluster.create(REQUESTS_TOPIC, LAYOUT.shards)
        cluster.create(REPLIES_TOPIC, LAYOUT.replies)
        cluster.create(RECORDS_TOPIC, LAYOUT.shards)
        cluster.create("etl.jobs", 1)
        cluster.create("etl.status", 1)
        yield cluster


LOST: dict[str, Callable[..., Any]] = {
    "describe_topics": lambda topics, **_: {topic: Future[Any]() for topic in topics.topic_names},
    "describe_configs": lambda resources, **_: {resource: Future[Any]() for resource in resources},
    "describe_cluster": lambda **_: Future[Any](),
    "create_topics": lambda new, **_: {each.topic: Future[Any]() for each in new},
}
"""What a client returns that loses the question."""


class Client:
    """An admin client that loses questions when a test says so."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._client = AdminClient(config)
        self.loses = False

    def __getattr__(self, name: str) -> Any:
        return LOST[name] if self.loses and name in LOST else getattr(self._client, name)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """The admin clients that there are."""
    clients: list[Client] = []

    def make(config: dict[str, Any]) -> Client:
        clients.append(Client(config))
        return clients[-1]

    monkeypatch.setattr(lasting_admin, "AdminClient", make)
    return clients


@pytest.fixture
def lose(made: list[Client]) -> Callable[[], None]:
    """Lets all admin clients that there are lose each question."""

    def lose() -> None:
        for client in made:
            client.loses = True

    return lose


QUESTIONS: dict[str, Callable[[TopicAdmin], Awaitable[object]]] = {
    "looking for the topic 'etl.jobs'": lambda admin: admin.look_at("etl.jobs", timeout_s=SHORT_S),
    "creating the topic 'etl.events'": lambda admin: admin.make({"etl.events": (1, {})}, timeout_s=SHORT_S),
    "listing the topics": lambda admin: admin.groups(timeout_s=SHORT_S),
}


@pytest.mark.parametrize("doing", QUESTIONS)
async def test_a_question_that_is_lost_is_told_and_the_next_one_is_answered(
    doing: str, brokers: MockBrokers, lose: Callable[[], None]
) -> None:
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        lose()
        with pytest.raises(PassingError, match=f"^no broker answered at {brokers.servers} while {doing}: "):
            await QUESTIONS[doing](admin)
        assert isinstance(await admin.look_at("etl.jobs", timeout_s=DEADLINE_S), FoundTopic)
        assert await admin.groups(timeout_s=DEADLINE_S) == ["etl"]


async def test_a_broker_that_is_too_slow_is_asked_by_another_client(brokers: MockBrokers, made: list[Client]) -> None:
    """The brokers that this one knows may have gone. Then librdkafka itself says that the time is over."""
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        brokers.take_s(2 * SHORT_S)
        with pytest.raises(BrokerAwayError):
            await admin.look_at("etl.jobs", timeout_s=SHORT_S)
        brokers.take_s(0)
        assert await admin.look_at("etl.jobs", timeout_s=DEADLINE_S) is not None
    assert len(made) == 2


async def test_a_warning_is_not_waited_for_without_end(
    brokers: MockBrokers, lose: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    admin = LastingAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))
    lose()
    await warn_of_deletion(admin, ["etl.jobs"], timeout_s=SHORT_S)
    assert caplog.records == []


async def test_ends_that_nobody_tells_are_asked_for_anew(brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that has asked may never come back."""
    over = threading.Event()

    class Hanging(Consumer):
        def offsets_for_times(self, partitions: Sequence[TopicPartition], *_: Any) -> list[TopicPartition]:
            over.wait(DEADLINE_S)
            return []

    monkeypatch.setattr(partition_ends, "Consumer", Hanging)
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        with pytest.raises(BrokerAwayError, match=f"at {brokers.servers} while asking for the ends of etl.jobs: "):
            await admin.end_offsets(["etl.jobs"], timeout_s=SHORT_S)
        monkeypatch.setattr(partition_ends, "Consumer", Consumer)
        try:
            assert await admin.end_offsets(["etl.jobs"], timeout_s=DEADLINE_S / 2) == {"etl.jobs": 0}
        finally:
            over.set()


async def test_ends_are_asked_for_again_if_librdkafka_notices_in_time_that_connections_have_died(
    brokers: MockBrokers, made: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    consumers = list[Consumer]()

    class Dying(Consumer):
        def offsets_for_times(self, partitions: list[TopicPartition], *more: Any) -> list[TopicPartition]:
            consumers.append(self)
            if len(consumers) == 1:
                raise dead
            return super().offsets_for_times(partitions, *more)

    def describe(topics: Any, **_: Any) -> dict[str, Future[Any]]:
        told: dict[str, Future[Any]] = {topic: Future() for topic in topics.topic_names}
        for future in told.values():
            future.set_exception(dead)
        return told

    monkeypatch.setattr(partition_ends, "Consumer", Dying)
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        monkeypatch.setattr(made[0], "describe_topics", describe, raising=False)
        assert await admin.end_offsets(["etl.jobs"], timeout_s=DEADLINE_S) == {"etl.jobs": 0}


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watch, "_LOOK_S", 0.0)
    monkeypatch.setattr(topic_watch, "_ANSWER_S", SHORT_S)


@pytest.mark.usefixtures("short_looks")
def test_the_topics_are_watched_on_when_a_question_was_lost(brokers: MockBrokers, lose: Callable[[], None]) -> None:
    outage = Outage(brokers.servers)
    admin, watch = LastingAdmin({"bootstrap.servers": brokers.servers}, outage), TopicWatch(outage)
    wait_until(lambda: begins(watch, admin), "the topics are known")
    lose()
    watch.look(admin)
    outage.went_away("until somebody answers")

    def is_back() -> bool:
        watch.look(admin)
        return not outage.away

    wait_until(is_back, "the topics are looked for again")


@pytest.mark.usefixtures("short_looks")
def test_who_begins_to_watch_does_not_wait_for_ever(brokers: MockBrokers, lose: Callable[[], None]) -> None:
    outage = Outage(brokers.servers)
    admin, watch = LastingAdmin({"bootstrap.servers": brokers.servers}, outage), TopicWatch(outage)
    lose()
    with pytest.raises(ShardError, match=f"can't be described: no broker answered at {brokers.servers} while looking"):
        watch.begin(admin, LAYOUT)
    wait_until(lambda: begins(watch, admin), "the topics are known")


def begins(watch: TopicWatch, admin: LastingAdmin) -> bool:
    try:
        watch.begin(admin, LAYOUT)
    except ShardError:
        return False
    return True


@pytest.fixture
def destroyed_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The threads that have destroyed clients. The garbage collector, which may run in any thread, does not."""
    threads: list[str] = []

    def make(config: dict[str, Any]) -> Client:
        client = Client(config)
        weakref.finalize(client, lambda: threads.append(threading.current_thread().name))
        return client

    monkeypatch.setattr(lasting_admin, "AdminClient", make)
    gc.disable()
    try:
        yield threads
    finally:
        gc.enable()


OWN_THREAD = "cospark-discarded-client"


@pytest.mark.parametrize("doing", ["looking for the topic 'etl.jobs'", "listing the topics"])
async def test_no_event_loop_destroys_a_client(doing: str, brokers: MockBrokers, destroyed_by: list[str]) -> None:
    """It would stand still while one of the client's threads looks for a broker's name."""
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        await admin.look_at("etl.jobs", timeout_s=DEADLINE_S)
        brokers.take_s(5 * SHORT_S)
        with pytest.raises(BrokerAwayError):
            await QUESTIONS[doing](admin)
        await eventually(lambda: destroyed_by)
        brokers.take_s(0)
        assert await admin.look_at("etl.jobs", timeout_s=DEADLINE_S) is not None
    await eventually(lambda: len(destroyed_by) == 2)
    assert await admin.look_at("etl.jobs", timeout_s=DEADLINE_S) is not None, "late, but answered"
    await eventually(lambda: len(destroyed_by) == 3)
    assert {*destroyed_by} == {OWN_THREAD}


async def test_listing_that_takes_too_long_keeps_no_client(
    brokers: MockBrokers, destroyed_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_topics(self: Client, *, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(Client, "list_topics", list_topics, raising=False)
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        with pytest.raises(BrokerAwayError):
            await admin.groups(timeout_s=DEADLINE_S)
        await eventually(lambda: destroyed_by)
    assert threading.current_thread().name not in destroyed_by


async def test_a_client_is_destroyed_only_when_others_have_their_answers(
    brokers: MockBrokers, destroyed_by: list[str]
) -> None:
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        await admin.look_at("etl.jobs", timeout_s=DEADLINE_S)
        brokers.take_s(5 * SHORT_S)
        patient = asyncio.create_task(admin.look_at("etl.jobs", timeout_s=DEADLINE_S))
        with pytest.raises(BrokerAwayError):
            await admin.look_at("etl.jobs", timeout_s=SHORT_S)
        assert not destroyed_by
        assert isinstance(await patient, FoundTopic)
        await eventually(lambda: destroyed_by == [OWN_THREAD])


@pytest.mark.usefixtures("short_looks")
def test_the_thread_of_the_shards_destroys_no_client(brokers: MockBrokers, destroyed_by: list[str]) -> None:
    outage = Outage(brokers.servers)
    with closing(LastingAdmin({"bootstrap.servers": brokers.servers}, outage)) as admin:
        watch = TopicWatch(outage)
        wait_until(lambda: begins(watch, admin), "the topics are known")
        brokers.take_s(5 * SHORT_S)

        def is_replaced() -> bool:
            watch.look(admin)
            return bool(destroyed_by)

        wait_until(is_replaced, "the client is replaced")
    assert {*destroyed_by} == {OWN_THREAD}


@pytest.mark.parametrize("failed", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED])
@pytest.mark.usefixtures("destroyed_by")
def test_an_answer_that_is_an_error_is_not_kept_by_it(failed: int) -> None:
    told: Future[None] = Future()
    told.set_exception(KafkaException(KafkaError(failed)))
    answer = Answer(told, DEADLINE_S, lambda error: BrokerAwayError("broker:9092", "asking", error.str()))
    with suppress(KafkaException, BrokerAwayError):
        answer.result()
    kept = weakref.ref(answer)
    del answer
    assert kept() is None


@pytest.mark.usefixtures("destroyed_by")
async def test_a_refusal_keeps_no_admin_client(brokers: MockBrokers, lose: Callable[[], None]) -> None:
    outage = Outage(brokers.servers)
    admin = LastingAdmin({"bootstrap.servers": brokers.servers}, outage)
    lose()
    outage.refused("no such user", "the password")
    with suppress(RefusedError):
        await warn_of_deletion(admin, ["etl.jobs"], timeout_s=DEADLINE_S)
    admin.close()
    kept = weakref.ref(admin)
    del admin
    assert kept() is None


async def test_no_event_loop_closes_the_consumer_that_asks_for_ends(
    brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_by: list[str] = []

    class Noting(Consumer):
        def close(self) -> None:
            closed_by.append(threading.current_thread().name)
            super().close()

    monkeypatch.setattr(partition_ends, "Consumer", Noting)
    with closing(TopicAdmin({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))) as admin:
        assert await admin.end_offsets(["etl.jobs"], timeout_s=DEADLINE_S) == {"etl.jobs": 0}
        await eventually(lambda: "cospark-topic-ends" not in [each.name for each in threading.enumerate()])
    await eventually(lambda: closed_by == [OWN_THREAD])
