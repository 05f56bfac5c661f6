"""What ends a client of librdkafka ends nothing of ours: what comes next is done, if need be by a new client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from mock_brokers import INIT_PRODUCER_ID, PRODUCE, BrokerError, MockBrokers, mock_brokers
from waiting import DEADLINE_S

from airflow_provider.declarative.exchange import Write
from airflow_provider.declarative.model import MemberEpoch
from airflow_provider.declarative.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.protocol.model import MemberId
from airflow_provider.requests.worker_requests import WorkerRequests
from airflow_provider.shards.producer import ShardProducer
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.outage import Outage
from airflow_provider.topics.producer import NewRecord, TopicWriter

BODY = ConnectGroupHeartbeatRequest(group_id="g", member_id=MemberId("m"), member_epoch=MemberEpoch(1))
ENDS = [
    (INIT_PRODUCER_ID, BrokerError.CLUSTER_AUTHORIZATION_FAILED),
    (PRODUCE, BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER),
]


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    with mock_brokers() as cluster:
        cluster.create(REQUESTS_TOPIC, 4)
        cluster.create(REPLIES_TOPIC, 16)
        cluster.create(RECORDS_TOPIC, 4)
        cluster.create("g.status", 1)
        yield cluster


@pytest.mark.parametrize(("api", "error"), ENDS)
def test_requests_are_written_after_a_fatal_error(brokers: MockBrokers, api: int, error: BrokerError) -> None:
    brokers.fail(api, error)
    failed: list[int] = []
    requests = WorkerRequests(
        KafkaSettings.from_extra({"bootstrap.servers": brokers.servers}, conn_id="k"),
        heard=lambda _: None,
        failed=lambda number, _why: failed.append(number),
    )
    requests.open()
    try:
        for number in range(4):
            requests.send(BODY, correlation_id=number).result(DEADLINE_S)
        assert {2, 3}.isdisjoint(failed), "only what was given to the first producer is lost"
    finally:
        requests.close()


@pytest.mark.parametrize(("api", "error"), ENDS)
async def test_records_are_written_after_a_fatal_error(brokers: MockBrokers, api: int, error: BrokerError) -> None:
    brokers.fail(api, error)
    writer = TopicWriter({"bootstrap.servers": brokers.servers}, Outage(brokers.servers))
    try:
        with contextlib.suppress(TopicError):
            await writer.write(NewRecord("g.status", "a", b"1"))
        for _ in range(3):
            await writer.write(NewRecord("g.status", "a", b"2"))
    finally:
        writer.close()


@pytest.mark.parametrize(("api", "error"), ENDS)
def test_a_shard_is_written_by_the_next_producer_after_a_fatal_error(
    brokers: MockBrokers, api: int, error: BrokerError
) -> None:
    """Whatever the first one raises, the shard is loaded again with a new one."""

    def write() -> None:
        producer = ShardProducer({"bootstrap.servers": brokers.servers}, 0, 4)
        try:
            producer.begin()
            producer.commit([Write(RECORDS_TOPIC, 0, b"a", b"1")], None, None)
        finally:
            producer.close()

    brokers.fail(api, error)
    with contextlib.suppress(Exception):
        write()
    write()
