"""Somebody gives the shards' topics more partitions."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from shard_bench import LAYOUT
from test_shard_records_gone import RECORDS, Config, coordinator
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.group.declarative.protocol.sharding import COORDINATORS, RECORDS_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.protocol.wire.record_values import (
    ConnectWorkerGroupMetadataKey,
    ConnectWorkerGroupMetadataValue,
)
from airflow_provider.group.declarative.protocol.wire.records import Record, encode_record
from airflow_provider.group.declarative.server.shard_records.handled import check_shards
from airflow_provider.group.declarative.server.shard_records.kafka_log import KafkaShardLog
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.kafka.topics.outage import Outage

OTHER = Record(ConnectWorkerGroupMetadataKey("other"), ConnectWorkerGroupMetadataValue(epoch=GroupEpoch(1)))
"""Of a group that is in shard 0 of two, and in shard 2 of four."""


def test_more_shards_than_groups_were_served_in_are_refused_until_both_topics_are_made_anew(
    shard_config: Config,
) -> None:
    admin, before, after = AdminClient({**shard_config, **COMMON}), LAYOUT.shards, 2 * LAYOUT.shards
    with closing(coordinator(shard_config)) as consumer:
        check_shards(shard_config, before)  # nobody was served yet
        group = consumer.consumer_group_metadata
        with closing(KafkaShardLog(shard_config, 0, before, group=group, renewed=False)) as shard_log:
            assert list(shard_log.load()) == []
            shard_log.commit([*RECORDS, Write(RECORDS_TOPIC, 0, *encode_record(OTHER))], 1)
    for done in admin.create_partitions(
        [NewPartitions(topic, after) for topic in (REQUESTS_TOPIC, RECORDS_TOPIC)]
    ).values():
        done.result(DEADLINE_S)
    check_shards(shard_config, before)
    with pytest.raises(TopicError, match=f"have {after} partitions, but groups are served in {before} shards"):
        check_shards(shard_config, after)
    admin.delete_consumer_groups([COORDINATORS])[COORDINATORS].result(DEADLINE_S)  # as brokers do after a week
    check_shards(shard_config, before)
    with pytest.raises(TopicError, match=f"have {after} partitions, but group 'other' was served in another number"):
        check_shards(shard_config, after)

    for deleted in admin.delete_topics([REQUESTS_TOPIC, RECORDS_TOPIC]).values():
        deleted.result(DEADLINE_S)
    wait_until(lambda: RECORDS_TOPIC not in admin.list_topics(timeout=DEADLINE_S).topics, "they are deleted")
    topics = ShardTopics(shard_config, Outage(shard_config["bootstrap.servers"]))
    asyncio.run(topics.prepare_shards(timeout_s=DEADLINE_S, make=Layout(shards=after, replies=2)))
    check_shards(shard_config, after)
