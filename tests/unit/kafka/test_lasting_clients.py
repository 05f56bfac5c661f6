"""What ends a client of librdkafka ends nothing of ours: what comes next is done, if need be by a new client."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from echo_machine import EchoMachine
from mock_brokers import (
    CONSUMER_GROUP_HEARTBEAT,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    BrokerError,
    MockBrokers,
    mock_brokers,
)
from waiting import DEADLINE_S, eventually, wait_until

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.model import MemberEpoch
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.protocol.wire.messages.apis import decode_request
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.declarative.requests import worker_requests
from airflow_provider.group.declarative.requests.worker_requests import WorkerRequests
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.group.declarative.server.shard_records import kafka_log
from airflow_provider.group.declarative.server.shard_records.kafka_log import KafkaShardLog
from airflow_provider.group.declarative.server.shard_records.producer import ShardProducer
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.lasting_producer import LastingProducer
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics import reader
from airflow_provider.kafka.topics.administration import lasting_admin
from airflow_provider.kafka.topics.errors import LastingError, TopicError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import NewRecord, TopicWriter
from airflow_provider.triggers.asset_watchers.bookmarks import Bookmark
from airflow_provider.values.model import MemberId

T = TypeVar("T")

SHARDS = 4
BODY = ConnectGroupHeartbeatRequest(group_id="g", member_id=MemberId("m"), member_epoch=MemberEpoch(1))
ENDS = [
    (INIT_PRODUCER_ID, BrokerError.CLUSTER_AUTHORIZATION_FAILED),
    (PRODUCE, BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER),
]


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    with mock_brokers() as cluster:
        cluster.create(REQUESTS_TOPIC, SHARDS)
        cluster.create(REPLIES_TOPIC, 16)
        cluster.create(RECORDS_TOPIC, SHARDS)
        cluster.create("g.status", 1)
        yield cluster


def settings_of(brokers: MockBrokers) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": brokers.servers}, conn_id="k")


def stored(brokers: MockBrokers, topic: str, partitions: int) -> list[bytes]:
    """The values in a topic."""
    consumer = Consumer({"bootstrap.servers": brokers.servers, **COMMON, "group.id": "test"})
    with closing(consumer):
        at = [TopicPartition(topic, number, 0) for number in range(partitions)]
        ends = sum(consumer.get_watermark_offsets(each, timeout=DEADLINE_S)[1] for each in at)
        consumer.assign(at)
        values: list[bytes] = []
        while len(values) < ends:
            values += [message.value() or b"" for message in consumer.consume(ends, 0.1) if message.error() is None]
        return values


@pytest.mark.parametrize(("api", "error"), ENDS)
def test_each_request_is_written_or_told_as_failed_after_a_fatal_error(
    brokers: MockBrokers, api: int, error: BrokerError
) -> None:
    """Only what the first producer was given has failed: whatever comes later is written by the next one."""
    brokers.fail(api, error)
    failed: list[int] = []
    requests = WorkerRequests(
        settings_of(brokers), heard=lambda _: None, failed=lambda number, _why: failed.append(number)
    )
    requests.open()
    try:
        for number in range(4):
            requests.send(BODY, correlation_id=number).result(DEADLINE_S)
    finally:
        requests.close()
    assert failed in ([], [0])
    written = [decode_request(value).header.correlation_id for value in stored(brokers, REQUESTS_TOPIC, SHARDS)]
    assert sorted([*failed, *written]) == [0, 1, 2, 3]


@pytest.mark.parametrize(("api", "error"), ENDS)
async def test_each_record_is_written_or_told_as_failed_after_a_fatal_error(
    brokers: MockBrokers, api: int, error: BrokerError
) -> None:
    brokers.fail(api, error)
    writer = TopicWriter({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))
    failed = []
    try:
        for value in (b"0", b"1", b"2", b"3"):
            try:
                await writer.write(NewRecord("g.status", "a", value))
            except TopicError:
                failed.append(value)
    finally:
        writer.close()
    assert failed in ([], [b"0"])
    assert sorted([*failed, *stored(brokers, "g.status", 1)]) == [b"0", b"1", b"2", b"3"]


async def test_what_has_no_result_when_its_writer_is_closed_has_failed(
    brokers: MockBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider.kafka.topics import producer

    monkeypatch.setattr(producer, "_FLUSH_S", 0.05)
    writer = TopicWriter({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))
    brokers.go()
    written = writer.write(NewRecord("g.status", "a", b"1"))
    writer.close()
    with pytest.raises(TopicError):
        await written


@pytest.mark.parametrize(("api", "error"), ENDS)
def test_each_record_has_one_result_if_a_fatal_error_comes_while_it_is_waited_for(
    brokers: MockBrokers, api: int, error: BrokerError
) -> None:
    """Some are told in the midst of the call that raises the error."""
    config = {"bootstrap.servers": brokers.servers, **COMMON, "enable.idempotence": True, "linger.ms": 1}
    producer = LastingProducer(lambda: Producer(config), delivery_timeout_ms=60_000)
    results: list[int] = []
    brokers.fail(api, error)
    for number in range(5):
        told = functools.partial(_told, results, number)
        producer.produce("g.status", key=b"a", value=b"1", partition=0, delivered=told)
    producer.close(DEADLINE_S)
    assert sorted(results) == [*range(5)]


OWN_THREAD = "cospark-discarded-client"


@pytest.fixture
def destroyed_by() -> list[str]:
    """The threads that have destroyed clients."""
    return []


def noted(client: T, destroyed_by: list[str]) -> T:
    """Note who destroys it."""
    weakref.finalize(client, lambda: destroyed_by.append(threading.current_thread().name))
    return client


class NotedProducer(Producer):
    """One that weak references can be made of."""


class NotedAdminClient(AdminClient):
    """One that weak references can be made of."""


@pytest.mark.parametrize("looks", [True, False], ids=["polled", "not polled"])
async def test_no_event_loop_destroys_a_producer(brokers: MockBrokers, destroyed_by: list[str], *, looks: bool) -> None:
    """It would stand still while one of the producer's threads looks for a broker's name."""
    config = {"bootstrap.servers": brokers.servers, **COMMON, "enable.idempotence": True, "linger.ms": 1}
    made = 0

    def make() -> Producer:
        nonlocal made
        made += 1
        return noted(NotedProducer(config), destroyed_by)

    brokers.fail(INIT_PRODUCER_ID, BrokerError.CLUSTER_AUTHORIZATION_FAILED)
    producer = LastingProducer(make, delivery_timeout_ms=60_000)

    def is_replaced() -> bool:
        producer.produce("g.status", key=b"a", value=b"1", partition=0, delivered=lambda *_: None)
        if looks:
            producer.poll(0)
        return made == 2

    await eventually(is_replaced)
    await eventually(lambda: destroyed_by)
    producer.close(DEADLINE_S)
    await eventually(lambda: len(destroyed_by) == 2)
    assert {*destroyed_by} == {OWN_THREAD}


def refused(_config: object) -> Any:
    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "Local: Invalid argument or configuration"))


async def test_no_event_loop_destroys_the_consumer_of_replies_to_requests_that_can_t_be_written(
    brokers: MockBrokers, destroyed_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noting(Consumer):
        def close(self) -> None:
            destroyed_by.append(threading.current_thread().name)
            super().close()

    monkeypatch.setattr(worker_requests, "Consumer", Noting)
    monkeypatch.setattr(worker_requests, "Producer", refused)
    with pytest.raises(LastingError):
        WorkerRequests(settings_of(brokers), heard=lambda _: None, failed=lambda *_: None)
    await eventually(lambda: destroyed_by == [OWN_THREAD])


async def test_no_event_loop_destroys_the_admin_client_of_topics_that_can_t_be_read(
    brokers: MockBrokers, destroyed_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_admin, "AdminClient", lambda config: noted(NotedAdminClient(config), destroyed_by))
    monkeypatch.setattr(reader, "Consumer", refused)
    with pytest.raises(LastingError):
        FollowedTopics(settings_of(brokers), "g").attach()
    await eventually(lambda: destroyed_by == [OWN_THREAD])


def _told(results: list[int], number: int, _error: KafkaError | None, _message: Message | None) -> None:
    results.append(number)


@pytest.mark.parametrize(("api", "error"), ENDS)
def test_a_shard_is_written_by_the_next_producer_after_a_fatal_error(
    brokers: MockBrokers, api: int, error: BrokerError
) -> None:
    """The first one says that the shard can't be served, so that it is loaded again with a new one."""

    def write() -> None:
        with closing(ShardProducer({"bootstrap.servers": brokers.servers}, 0, SHARDS)) as producer:
            producer.begin()
            producer.commit([Write(RECORDS_TOPIC, 0, b"a", b"1")], None, None)

    brokers.fail(api, error)
    with pytest.raises(ShardError):
        write()
    write()


@pytest.mark.slow
def test_shards_are_served_with_the_next_consumer_after_a_fatal_error(
    brokers: MockBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """The first one says so once, and reads nothing any more. It has no shard yet that would notice it."""
    brokers.fail(CONSUMER_GROUP_HEARTBEAT, BrokerError.INVALID_REQUEST)
    server = ShardServer(settings_of(brokers), EchoMachine, make=Layout(shards=SHARDS, replies=16))
    server.start()
    try:
        wait_until(lambda: len(server.served) == SHARDS, "another consumer serves")
    finally:
        server.close()
    assert "no shards are served: the requests can't be read: Fatal error: Broker: Invalid request" in caplog.text


Trouble = Callable[[MockBrokers], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def away(brokers: MockBrokers) -> Iterator[None]:
    brokers.go()
    yield
    brokers.come_back()


@contextlib.contextmanager
def slow(brokers: MockBrokers) -> Iterator[None]:
    brokers.take_s(1.0)
    yield
    brokers.take_s(0)


@contextlib.contextmanager
def led_by_another(brokers: MockBrokers) -> Iterator[None]:
    """Longer than librdkafka tries by itself."""
    brokers.fail(LIST_OFFSETS, *[BrokerError.FENCED_LEADER_EPOCH] * 2)
    yield


@pytest.mark.parametrize("trouble", [away, slow, led_by_another])
def test_the_end_of_a_shard_is_known_again(
    brokers: MockBrokers, trouble: Trouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for as long as a coordinator runs."""
    monkeypatch.setattr(kafka_log, "_ANSWER_S", 0.2)
    config = {"bootstrap.servers": brokers.servers, **COMMON}
    shard_log = KafkaShardLog(config, 0, SHARDS, group=lambda: None, renewed=False)
    with closing(shard_log):
        wait_until(lambda: _known(shard_log), "the end is known")
        with trouble(brokers), pytest.raises(ShardError, match="the end of shard 0's requests is not known"):
            shard_log.end()
        wait_until(lambda: _known(shard_log), "the end is known again")


def _known(shard_log: KafkaShardLog) -> bool:
    try:
        return shard_log.end() == 0
    except ShardError:
        return False


@pytest.mark.parametrize("trouble", [away, slow])
async def test_a_bookmark_is_read_and_put_again(brokers: MockBrokers, trouble: Trouble) -> None:
    async with GroupTransport(settings_of(brokers)) as transport:
        bookmark = Bookmark(transport, "g.watcher.w", "g.status")
        await bookmark.put(7)
        with trouble(brokers):
            reading = asyncio.ensure_future(bookmark.read())
            await asyncio.wait([reading], timeout=0.2)
        assert await reading == 7
        with trouble(brokers):
            putting = asyncio.ensure_future(bookmark.put(8))
            await asyncio.wait([putting], timeout=0.2)
        await putting
        brokers.fail(OFFSET_FETCH, *[BrokerError.NOT_COORDINATOR] * 2)
        assert await bookmark.read() == 8
        brokers.fail(OFFSET_COMMIT, *[BrokerError.NOT_COORDINATOR] * 2)
        await bookmark.put(9)
        assert await bookmark.read() == 9
