"""Requests about the committed offsets of consumer groups, by a client that is no member: OffsetCommit, OffsetFetch.

They are classes for aiokafka, from the same sources as those in :mod:`airflow_provider.kafka.group_requests.requests`.
One version of each is enough: all brokers from Kafka 2.4 to 4.3 know it.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any, Final

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, Int16, Int32, Int64, Schema

from airflow_provider.kafka.group_requests.flexible import MEMBER, NO_TAGS, STRING, TAGS, StructT, fill
from airflow_provider.kafka.group_requests.messages import CommittedOffset
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

_PARTITION: Final = 0
_NO_GENERATION: Final = -1
_NO_LEADER_EPOCH: Final = -1


# ---- OffsetCommit (8)


class OffsetCommitResponseV8(Response):
    API_KEY = 8
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", STRING),
                ("partitions", CompactArray(("partition_index", Int32), ("error_code", Int16), TAGS)),
                TAGS,
            ),
        ),
        TAGS,
    )


class OffsetCommitRequestV8(RequestStruct):
    API_KEY = 8
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetCommitResponseV8
    SCHEMA = Schema(
        *MEMBER,
        (
            "topics",
            CompactArray(
                ("name", STRING),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("committed_offset", Int64),
                        ("committed_leader_epoch", Int32),
                        ("committed_metadata", STRING),
                        TAGS,
                    ),
                ),
                TAGS,
            ),
        ),
        TAGS,
    )


class OffsetCommit(Request[OffsetCommitRequestV8]):
    """:param topic: a topic of one partition"""

    API_KEY = 8

    def __init__(self, group_id: str, topic: str, offset: int) -> None:
        self._group_id = group_id
        self._topic = topic
        self._offset = offset

    def build(self, request_struct_class: type[StructT]) -> StructT:
        partition = (_PARTITION, self._offset, _NO_LEADER_EPOCH, "", NO_TAGS)
        return fill(
            request_struct_class,
            group_id=self._group_id,
            generation_id=_NO_GENERATION,
            member_id="",
            group_instance_id=None,
            topics=[(self._topic, [partition], NO_TAGS)],
        )

    def read(self, response: Any) -> CommittedOffset:
        ((_, ((_, error_code, _),), _),) = response.topics
        return CommittedOffset(error=KafkaErrorCode(error_code), offset=self._offset)


# ---- OffsetFetch (9)


class OffsetFetchResponseV6(Response):
    API_KEY = 9
    API_VERSION = 6
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", STRING),
                (
                    "partitions",
                    CompactArray(
                        ("partition_index", Int32),
                        ("committed_offset", Int64),
                        ("committed_leader_epoch", Int32),
                        ("metadata", STRING),
                        ("error_code", Int16),
                        TAGS,
                    ),
                ),
                TAGS,
            ),
        ),
        ("error_code", Int16),
        TAGS,
    )


class OffsetFetchRequestV6(RequestStruct):
    API_KEY = 9
    API_VERSION = 6
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = OffsetFetchResponseV6
    SCHEMA = Schema(
        ("group_id", STRING),
        ("topics", CompactArray(("name", STRING), ("partition_indexes", CompactArray(Int32)), TAGS)),
        TAGS,
    )


class OffsetFetch(Request[OffsetFetchRequestV6]):
    """:param topic: a topic of one partition"""

    API_KEY = 9

    def __init__(self, group_id: str, topic: str) -> None:
        self._group_id = group_id
        self._topic = topic

    def build(self, request_struct_class: type[StructT]) -> StructT:
        return fill(request_struct_class, group_id=self._group_id, topics=[(self._topic, [_PARTITION], NO_TAGS)])

    @staticmethod
    def read(response: Any) -> CommittedOffset:
        """The error of the group, or otherwise of the partition."""
        if response.error_code:
            return CommittedOffset(error=KafkaErrorCode(response.error_code))
        ((_, ((_, offset, _, _, error_code, _),), _),) = response.topics
        return CommittedOffset(error=KafkaErrorCode(error_code), offset=offset if offset >= 0 else None)
