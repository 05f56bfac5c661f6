"""Requests of group members that are answered immediately, as request classes for aiokafka, which lacks them. The other
requests are in :mod:`airflow_provider.kafka.group_requests.rounds`.

They have all flexible versions (KIP-482) from Kafka 2.4, the first release in which static members can be removed from
a group, to Kafka 4.3. Source: Kafka's ``clients/src/main/resources/common/message/*.json``. Each connection uses the
newest version that both sides know. Fields that an older version does not have are left out, as in Kafka's own clients.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any, ClassVar

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, Int8, Int16, Int32, Schema

from airflow_provider.kafka.group_requests import messages
from airflow_provider.kafka.group_requests.flexible import MEMBER, NO_TAGS, STRING, TAGS, StructT, fill
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import GenerationId, MemberId, WorkerId

_GROUP_KEY_TYPE = 0

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


class FindCoordinatorResponseV4(FindCoordinatorResponseV3):
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
    RESPONSE_TYPE: ClassVar[type[Response]] = FindCoordinatorResponseV3
    SCHEMA = Schema(("key", STRING), ("key_type", Int8), TAGS)


class FindCoordinatorRequestV4(FindCoordinatorRequestV3):
    API_VERSION = 4
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
    SCHEMA = Schema(*MEMBER, TAGS)


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
    RESPONSE_TYPE: ClassVar[type[Response]] = LeaveGroupResponseV4
    SCHEMA = Schema(
        ("group_id", STRING),
        ("members", CompactArray(("member_id", STRING), ("group_instance_id", STRING), TAGS)),
        TAGS,
    )


class LeaveGroupRequestV5(LeaveGroupRequestV4):
    API_VERSION = 5
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
        if request_struct_class.API_VERSION >= 5:  # type: ignore[attr-defined]  # each of aiokafka's has one
            member = (*member, self._reason or None)
        return fill(request_struct_class, group_id=self._group_id, members=[(*member, NO_TAGS)])

    @staticmethod
    def read(response: Any) -> KafkaErrorCode:
        """The error of the group, or otherwise of the member."""
        codes = (response.error_code, *(error_code for _, _, error_code, _ in response.members))
        return KafkaErrorCode(next((code for code in codes if code), 0))
