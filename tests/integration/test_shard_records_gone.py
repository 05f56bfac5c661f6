"""The topic of records is deleted and recreated while a coordinator writes there."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from shard_bench import LAYOUT
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.sharding import COORDINATORS, RECORDS_TOPIC, REQUESTS_TOPIC
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records.kafka_log import KafkaShardLog
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.kafka.topics.outage import Outage

RECORDS = [Write(RECORDS_TOPIC, 0, key, b"value") for key in (b"a", b"b", b"c")]
Config = dict[str, str]


def coordinator(config: Config) -> Consumer:
    """A member of the coordinators' consumer group."""
    consumer = Consumer({**config, **COMMON, "group.id": COORDINATORS, "group.protocol": "consumer"})
    assigned: list[TopicPartition] = []
    consumer.subscribe([REQUESTS_TOPIC], on_assign=lambda _, partitions: assigned.extend(partitions))
    wait_until(lambda: consumer.poll(0.1) is None and assigned, "it has shards")
    return consumer


def test_transactions_begun_in_a_recreated_topic_do_not_hide_that_records_are_gone(shard_config: Config) -> None:
    admin = AdminClient({**shard_config, **COMMON})
    with closing(coordinator(shard_config)) as consumer:

        def opened() -> KafkaShardLog:
            return KafkaShardLog(shard_config, 0, 1, group=consumer.consumer_group_metadata, renewed=False)

        with closing(opened()) as before:
            assert list(before.load()) == []
            for handled in (1, 2):
                before.commit(RECORDS, handled)
            admin.delete_topics([RECORDS_TOPIC])[RECORDS_TOPIC].result(DEADLINE_S)
            wait_until(lambda: RECORDS_TOPIC not in admin.list_topics(timeout=DEADLINE_S).topics, "it is deleted")
            topics = ShardTopics(shard_config, Outage(shard_config["bootstrap.servers"]))
            assert asyncio.run(topics.prepare_shards(timeout_s=DEADLINE_S, make=LAYOUT)) == LAYOUT
            with pytest.raises(ShardError, match="the records of shard 0 are gone"):
                before.commit(RECORDS, 3)
        with closing(opened()) as after:
            assert list(after.load()) == []
            assert after.forgotten
