"""The requests of a round, JoinGroup and SyncGroup, which are answered only when other members have sent theirs.

They are classes for aiokafka, from the same sources as those in :mod:`airflow_provider.kafka.group_requests.requests`.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any, ClassVar

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactBytes, Int16, Int32, Schema

from airflow_provider.kafka.group_requests import messages
from airflow_provider.kafka.group_requests.flexible import MEMBER, NO_TAGS, STRING, TAGS, StructT, fill, worker_id
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId

# ---- JoinGroup (11)

_JOIN_HEAD = (
    ("group_id", STRING),
    ("session_timeout_ms", Int32),
    ("rebalance_timeout_ms", Int32),
    ("member_id", STRING),
    ("group_instance_id", STRING),
    ("protocol_type", STRING),
    ("protocols", CompactArray(("name", STRING), ("metadata", CompactBytes), TAGS)),
)
_JOINED_HEAD = (("throttle_time_ms", Int32), ("error_code", Int16), ("generation_id", Int32))
_JOINED_TAIL = (
    ("member_id", STRING),
    (
        "members",
        CompactArray(("member_id", STRING), ("group_instance_id", STRING), ("metadata", CompactBytes), TAGS),
    ),
    TAGS,
)


class JoinGroupResponseV6(Response):
    API_KEY = 11
    API_VERSION = 6
    SCHEMA = Schema(*_JOINED_HEAD, ("protocol_name", STRING), ("leader", STRING), *_JOINED_TAIL)


class JoinGroupResponseV7(JoinGroupResponseV6):
    API_VERSION = 7
    SCHEMA = Schema(
        *_JOINED_HEAD, ("protocol_type", STRING), ("protocol_name", STRING), ("leader", STRING), *_JOINED_TAIL
    )


class JoinGroupResponseV8(JoinGroupResponseV7):
    API_VERSION = 8


class JoinGroupResponseV9(JoinGroupResponseV8):
    API_VERSION = 9
    SCHEMA = Schema(
        *_JOINED_HEAD,
        ("protocol_type", STRING),
        ("protocol_name", STRING),
        ("leader", STRING),
        ("skip_assignment", Boolean),
        *_JOINED_TAIL,
    )


class JoinGroupRequestV6(RequestStruct):
    API_KEY = 11
    API_VERSION = 6
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE: ClassVar[type[Response]] = JoinGroupResponseV6
    SCHEMA = Schema(*_JOIN_HEAD, TAGS)


class JoinGroupRequestV7(JoinGroupRequestV6):
    API_VERSION = 7
    RESPONSE_TYPE = JoinGroupResponseV7


class JoinGroupRequestV8(JoinGroupRequestV7):
    API_VERSION = 8
    RESPONSE_TYPE = JoinGroupResponseV8
    SCHEMA = Schema(*_JOIN_HEAD, ("reason", STRING), TAGS)


class JoinGroupRequestV9(JoinGroupRequestV8):
    API_VERSION = 9
    RESPONSE_TYPE = JoinGroupResponseV9


class JoinGroup(Request[JoinGroupRequestV6 | JoinGroupRequestV7 | JoinGroupRequestV8 | JoinGroupRequestV9]):
    API_KEY = 11

    def __init__(self, message: messages.JoinRequest) -> None:
        self._message = message

    def build(self, request_struct_class: type[StructT]) -> StructT:
        message = self._message
        return fill(
            request_struct_class,
            group_id=message.group_id,
            session_timeout_ms=message.session_timeout_ms,
            rebalance_timeout_ms=message.rebalance_timeout_ms,
            member_id=message.member_id,
            group_instance_id=message.group_instance_id,
            protocol_type=message.protocol_type,
            protocols=[(name, metadata, NO_TAGS) for name, metadata in message.protocols],
            reason=message.reason or None,
        )

    @staticmethod
    def read(response: Any) -> messages.JoinResponse:
        return messages.JoinResponse(
            error=KafkaErrorCode(response.error_code),
            generation=GenerationId(response.generation_id),
            protocol=response.protocol_name or "",
            leader=MemberId(response.leader),
            member_id=MemberId(response.member_id),
            skip_assignment=response.API_VERSION >= 9 and response.skip_assignment,
            members=tuple(
                messages.JoinMember(
                    member_id=MemberId(member_id), group_instance_id=worker_id(instance_id), metadata=metadata
                )
                for member_id, instance_id, metadata, _ in response.members
            ),
        )


# ---- SyncGroup (14)

_SYNC_TAIL = (("assignments", CompactArray(("member_id", STRING), ("assignment", CompactBytes), TAGS)), TAGS)


class SyncGroupResponseV4(Response):
    API_KEY = 14
    API_VERSION = 4
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("assignment", CompactBytes), TAGS)


class SyncGroupResponseV5(SyncGroupResponseV4):
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("protocol_type", STRING),
        ("protocol_name", STRING),
        ("assignment", CompactBytes),
        TAGS,
    )


class SyncGroupRequestV4(RequestStruct):
    API_KEY = 14
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE: ClassVar[type[Response]] = SyncGroupResponseV4
    SCHEMA = Schema(*MEMBER, *_SYNC_TAIL)


class SyncGroupRequestV5(SyncGroupRequestV4):
    API_VERSION = 5
    RESPONSE_TYPE = SyncGroupResponseV5
    SCHEMA = Schema(*MEMBER, ("protocol_type", STRING), ("protocol_name", STRING), *_SYNC_TAIL)


class SyncGroup(Request[SyncGroupRequestV4 | SyncGroupRequestV5]):
    API_KEY = 14

    def __init__(self, message: messages.SyncRequest) -> None:
        self._message = message

    def build(self, request_struct_class: type[StructT]) -> StructT:
        message = self._message
        return fill(
            request_struct_class,
            group_id=message.group_id,
            generation_id=message.generation,
            member_id=message.member_id,
            group_instance_id=message.group_instance_id,
            protocol_type=message.protocol_type,
            protocol_name=message.protocol,
            assignments=[(member_id, assignment, NO_TAGS) for member_id, assignment in message.assignments.items()],
        )

    @staticmethod
    def read(response: Any) -> messages.SyncResponse:
        return messages.SyncResponse(error=KafkaErrorCode(response.error_code), assignment=response.assignment)
