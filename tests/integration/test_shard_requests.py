"""Requests go in, and replies come out, in one transaction."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from echo_machine import HELD, RAISES, heartbeat_of
from shard_bench import LAYOUT, Asker, in_process, settings_of_shards
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, partition_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import encode_request, request_of
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.integration import one_shot
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition
from airflow_provider.state.records.envelope import LARGEST_VALUE
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

ROUND_TRIPS = 100


@pytest.fixture(scope="module")
def server(shard_broker: LocalBroker) -> Iterator[ShardServer]:
    with in_process(shard_broker.bootstrap_servers) as serving:
        yield serving


@pytest.fixture
def asker(shard_broker: LocalBroker, server: ShardServer) -> Iterator[Asker]:
    asking = Asker({"bootstrap.servers": shard_broker.bootstrap_servers})
    yield asking
    asking.close()


def test_a_round_trip_takes_its_time(asker: Asker, group_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert [asker.heartbeat(group_id).member_epoch for _ in range(3)] == [1, 2, 3]
    took = []
    for _ in range(ROUND_TRIPS):
        asked_at = time.perf_counter()
        asker.heartbeat(group_id)
        took.append((time.perf_counter() - asked_at) * 1000)
    with capsys.disabled():
        slow = statistics.quantiles(took, n=20)[-1]
        print(f"\nround trip with its transaction: median {statistics.median(took):.1f} ms, 95 % under {slow:.1f} ms")


def test_invalid_requests_are_refused_and_hold_up_nobody(asker: Asker, group_id: str) -> None:
    shard = partition_of(group_id, LAYOUT.shards)
    asker.send_bytes(b"\x00", shard)
    good = encode_request(request_of(heartbeat_of(group_id), correlation_id=100, reply_partition=asker.partition))
    asker.send_bytes(good[:-1], shard)
    newer = encode_request(request_of(heartbeat_of(group_id), correlation_id=101, reply_partition=asker.partition))
    asker.send_bytes(newer[:2] + b"\x00\x07" + newer[4:], shard)
    elsewhere = asker.send(heartbeat_of(group_id), partition=1 - shard)
    assert asker.reply(100).body.error_code == KafkaErrorCode.INVALID_REQUEST
    assert asker.reply(101).body.error_code == KafkaErrorCode.UNSUPPORTED_VERSION
    assert asker.reply(elsewhere).body.error_code == KafkaErrorCode.NOT_COORDINATOR
    assert asker.heartbeat(group_id).member_epoch == 1


def test_a_request_that_the_machine_fails_at_is_answered_and_the_shard_goes_on(asker: Asker, group_id: str) -> None:
    assert asker.heartbeat(group_id).member_epoch == 1
    before, faulty, after = (asker.send(heartbeat_of(group_id, member)) for member in ("m", RAISES, "m"))
    assert asker.reply(faulty).body.error_code == KafkaErrorCode.UNKNOWN_SERVER_ERROR
    replies = [asker.reply(number).body for number in (before, after)]
    assert [reply.member_epoch for reply in replies] == [2, 3]  # type: ignore[union-attr]


@pytest.fixture
def little_room(shard_broker: LocalBroker, asker: Asker) -> Iterator[None]:
    """The topic of records takes the end of a transaction, and nothing larger."""
    admin = AdminClient({"bootstrap.servers": shard_broker.bootstrap_servers})

    def set_limit(size: int) -> None:
        change = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ResourceType.TOPIC, RECORDS_TOPIC, incremental_configs=[change])
        admin.incremental_alter_configs([topic])[topic].result(DEADLINE_S)

    def answers(code: KafkaErrorCode) -> bool:
        """Brokers act by a new setting a moment after they have taken it."""
        return asker.heartbeat(f"room-{secrets.token_hex(4)}").error_code == code

    set_limit(80)
    wait_until(lambda: answers(KafkaErrorCode.UNKNOWN_SERVER_ERROR), "the limit applies")
    yield
    set_limit(LARGEST_VALUE)
    wait_until(lambda: answers(KafkaErrorCode.NONE), "there is room again")


def test_a_request_whose_records_no_broker_takes_is_refused_and_the_shard_goes_on(
    asker: Asker, group_id: str, little_room: None, caplog: pytest.LogCaptureFixture
) -> None:
    answer = asker.heartbeat(group_id)
    assert answer.error_code == KafkaErrorCode.UNKNOWN_SERVER_ERROR
    assert f"more than the topic {RECORDS_TOPIC!r} takes in one record" in caplog.text
    unread = encode_request(request_of(heartbeat_of(group_id), correlation_id=100, reply_partition=asker.partition))
    asker.send_bytes(unread[:-1], partition_of(group_id, LAYOUT.shards))
    assert asker.reply(100).body.error_code == KafkaErrorCode.INVALID_REQUEST


def test_a_timer_answers_a_held_request(asker: Asker, group_id: str) -> None:
    assert asker.heartbeat(group_id, HELD).member_epoch == 1


def test_a_shard_reads_the_jobs_of_its_groups(asker: Asker, group_id: str, shard_broker: LocalBroker) -> None:
    one_shot.submit_job(
        settings_of_shards(shard_broker.bootstrap_servers),
        group_id,
        JobDefinition(name="sales", entry_point="noop:job"),
    )
    wait_until(lambda: asker.heartbeat(group_id).throttle_time_ms == 1, "the machine knows the planner")
