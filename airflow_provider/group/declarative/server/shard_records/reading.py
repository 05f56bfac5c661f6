"""Reads declarative groups from their records, for reports. No coordinator is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing

from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, partition_of
from airflow_provider.group.declarative.protocol.wire.records import decode_record
from airflow_provider.group.declarative.server.shard_records.loading import read_moment
from airflow_provider.kafka.settings import KafkaSettings, principal_of
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import RightsError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Operation, Right


def read_groups(settings: KafkaSettings, *, timeout_s: float, only: str | None = None) -> Mapping[str, GroupState]:
    """Read all groups that have records, each as it was at one moment. There are none if there have never been
    coordinators. Blocks, as long as there is progress.

    :param timeout_s: how long to wait for the topic's description
    :param only: read only this group, and so only one shard
    :raises RightsError: this user may not read the records
    :raises TopicError: the records can't be read
    :raises MalformedMessageError: a record is damaged
    :raises RemoteProtocolError: a record has an invalid value
    """
    config = settings.librdkafka()
    with closing(TopicAdmin(config, Outage(settings.bootstrap_servers))) as admin:
        found = asyncio.run(admin.look_at(RECORDS_TOPIC, timeout_s=timeout_s))
    if found is None:
        return {}
    if not found.partitions:  # the user may not even describe the topic
        raise RightsError((Right(RECORDS_TOPIC, Operation.READ),), principal_of(config))
    shards = range(found.partitions) if only is None else (partition_of(only, found.partitions),)
    groups: dict[str, GroupState] = {}
    for shard in shards:
        for key, value, _offset in read_moment(config, shard, given_up=lambda: False):
            if key is not None:
                record = decode_record(key, value)
                group_id = record.key.group_id
                if only in (None, group_id):
                    groups.setdefault(group_id, GroupState(group_id)).apply(record)
    return {group_id: group for group_id, group in groups.items() if group.is_recorded}
