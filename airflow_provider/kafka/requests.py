"""The requests of a group's members that aiokafka lacks, as request classes of its own kind.

All flexible versions (KIP-482) from Kafka 2.4 on, the first release in which static members can be taken out of a
group, to Kafka 4.3. Source: Kafka's ``clients/src/main/resources/common/message/*.json``. Each connection uses the
newest version that both sides know; what an older version cannot say is left out, as Kafka's own clients do.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from airflow_provider.kafka import messages
from airflow_provider.kafka.errors import KafkaErrorCode
from airflow_provider.kafka.messages import NodeId
from airflow_provider.membership.model import GenerationId, MemberId, WorkerId

STRING = CompactString("utf-8")
TAGS = ("tags", TaggedFields)
NO_TAGS: dict[int, bytes] = {}
_GROUP_KEY_TYPE = 0

StructT = TypeVar("StructT")


def fill(struct: type[StructT], **fields: object) -> StructT:
    """Build a request of this version from all that newer versions could say."""
    names: tuple[str, ...] = struct.SCHEMA.names  # type: ignore[attr-defined]
    return struct(**{name: (NO_TAGS if name == "tags" else fields[name]) for name in names})


def worker_id(instance_id: str | None) -> WorkerId | None:
    return None if instance_id is None else WorkerId(instance_id)


# ---- FindCoordinator (10)


class FindCoordinatorResponseV3(Response):
    API_KEY = 10
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", STRING),
        ("node_id", Int32),
        ("host", STRING),
        ("port", Int32),
        TAGS,
    )


class FindCoordinatorResponseV4(Response):
    API_KEY = 10
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "coordinators",
            CompactArray(
                ("key", STRING),
                ("node_id", Int32),
                ("host", STRING),
                ("port", Int32),
                ("error_code", Int16),
                ("error_message", STRING),
                TAGS,
            ),
        ),
        TAGS,
    )


class FindCoordinatorRequestV3(RequestStruct):
    API_KEY = 10
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FindCoordinatorResponseV3
    SCHEMA = Schema(("key", STRING), ("key_type", Int8), TAGS)


class FindCoordinatorRequestV4(RequestStruct):
    API_KEY = 10
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FindCoordinatorResponseV4
    SCHEMA = Schema(("key_type", Int8), ("coordinator_keys", CompactArray(STRING)), TAGS)


class FindCoordinatorRequestV5(FindCoordinatorRequestV4):
    API_VERSION = 5


class FindCoordinatorRequestV6(FindCoordinatorRequestV4):
    API_VERSION = 6


class FindCoordinator(
    Request[FindCoordinatorRequestV3 | FindCoordinatorRequestV4 | FindCoordinatorRequestV5 | FindCoordinatorRequestV6]
):
    API_KEY = 10

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id

    def build(self, request_struct_class: type[StructT]) -> StructT:
        return fill(
            request_struct_class,
            key=self._group_id,
            key_type=_GROUP_KEY_TYPE,
            coordinator_keys=[self._group_id],
        )

    @staticmethod
    def read(response: Any) -> messages.FindCoordinatorResponse:
        if response.API_VERSION < 4:
            error_code, node_id, host, port = response.error_code, response.node_id, response.host, response.port
        else:
            ((_, node_id, host, port, error_code, _, _),) = response.coordinators
        return messages.FindCoordinatorResponse(
            error=KafkaErrorCode(error_code), node=NodeId(node_id), host=host, port=port
        )


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


class JoinGroupResponseV7(Response):
    API_KEY = 11
    API_VERSION = 7
    SCHEMA = Schema(
        *_JOINED_HEAD, ("protocol_type", STRING), ("protocol_name", STRING), ("leader", STRING), *_JOINED_TAIL
    )


class JoinGroupResponseV8(JoinGroupResponseV7):
    API_VERSION = 8


class JoinGroupResponseV9(Response):
    API_KEY = 11
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


class JoinGroupRequestV8(RequestStruct):
    API_KEY = 11
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE: ClassVar[type[Response]] = JoinGroupResponseV8
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

_SYNC_HEAD = (("group_id", STRING), ("generation_id", Int32), ("member_id", STRING), ("group_instance_id", STRING))
_SYNC_TAIL = (("assignments", CompactArray(("member_id", STRING), ("assignment", CompactBytes), TAGS)), TAGS)


class SyncGroupResponseV4(Response):
    API_KEY = 14
    API_VERSION = 4
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), ("assignment", CompactBytes), TAGS)


class SyncGroupResponseV5(Response):
    API_KEY = 14
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
    RESPONSE_TYPE = SyncGroupResponseV4
    SCHEMA = Schema(*_SYNC_HEAD, *_SYNC_TAIL)


class SyncGroupRequestV5(RequestStruct):
    API_KEY = 14
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = SyncGroupResponseV5
    SCHEMA = Schema(*_SYNC_HEAD, ("protocol_type", STRING), ("protocol_name", STRING), *_SYNC_TAIL)


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


# ---- Heartbeat (12)


class HeartbeatResponseV4(Response):
    API_KEY = 12
    API_VERSION = 4
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16), TAGS)


class HeartbeatRequestV4(RequestStruct):
    API_KEY = 12
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = HeartbeatResponseV4
    SCHEMA = Schema(*_SYNC_HEAD, TAGS)


class Heartbeat(Request[HeartbeatRequestV4]):
    API_KEY = 12

    def __init__(self, group_id: str, generation: GenerationId, member_id: MemberId, worker: WorkerId | None) -> None:
        self._fields = {
            "group_id": group_id,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": worker,
        }

    def build(self, request_struct_class: type[StructT]) -> StructT:
        return fill(request_struct_class, **self._fields)

    @staticmethod
    def read(response: Any) -> KafkaErrorCode:
        return KafkaErrorCode(response.error_code)


# ---- LeaveGroup (13)


class LeaveGroupResponseV4(Response):
    API_KEY = 13
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "members",
            CompactArray(("member_id", STRING), ("group_instance_id", STRING), ("error_code", Int16), TAGS),
        ),
        TAGS,
    )


class LeaveGroupResponseV5(LeaveGroupResponseV4):
    API_VERSION = 5


class LeaveGroupRequestV4(RequestStruct):
    API_KEY = 13
    API_VERSION = 4
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = LeaveGroupResponseV4
    SCHEMA = Schema(
        ("group_id", STRING),
        ("members", CompactArray(("member_id", STRING), ("group_instance_id", STRING), TAGS)),
        TAGS,
    )


class LeaveGroupRequestV5(RequestStruct):
    API_KEY = 13
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = LeaveGroupResponseV5
    SCHEMA = Schema(
        ("group_id", STRING),
        ("members", CompactArray(("member_id", STRING), ("group_instance_id", STRING), ("reason", STRING), TAGS)),
        TAGS,
    )


class LeaveGroup(Request[LeaveGroupRequestV4 | LeaveGroupRequestV5]):
    API_KEY = 13

    def __init__(self, group_id: str, member_id: MemberId, worker: WorkerId | None, reason: str) -> None:
        self._group_id = group_id
        self._member = (member_id, worker)
        self._reason = reason

    def build(self, request_struct_class: type[StructT]) -> StructT:
        member: tuple[object, ...] = self._member
        if request_struct_class.API_VERSION >= 5:  # type: ignore[attr-defined]
            member = (*member, self._reason or None)
        return fill(request_struct_class, group_id=self._group_id, members=[(*member, NO_TAGS)])

    @staticmethod
    def read(response: Any) -> KafkaErrorCode:
        """The error of the group, or else of the member."""
        codes = (response.error_code, *(error_code for _, _, error_code, _ in response.members))
        return KafkaErrorCode(next((code for code in codes if code), 0))
