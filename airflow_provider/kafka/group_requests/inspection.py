"""Requests about groups that do not come from members: DescribeGroups, ListGroups.

They are classes for aiokafka, from the same sources as those in :mod:`airflow_provider.kafka.group_requests.requests`.
"""
# mypy: allow-subclassing-any

from __future__ import annotations

from typing import Any, ClassVar

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactBytes, Int16, Int32, Schema

from airflow_provider.kafka.group_requests import messages
from airflow_provider.kafka.group_requests.flexible import STRING, TAGS, StructT, fill, worker_id
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId

# ---- DescribeGroups (15)

_DESCRIBED = (
    ("group_id", STRING),
    ("group_state", STRING),
    ("protocol_type", STRING),
    ("protocol_data", STRING),
    (
        "members",
        CompactArray(
            ("member_id", STRING),
            ("group_instance_id", STRING),
            ("client_id", STRING),
            ("client_host", STRING),
            ("member_metadata", CompactBytes),
            ("member_assignment", CompactBytes),
            TAGS,
        ),
    ),
    ("authorized_operations", Int32),
    TAGS,
)


class DescribeGroupsResponseV5(Response):
    API_KEY = 15
    API_VERSION = 5
    SCHEMA = Schema(("throttle_time_ms", Int32), ("groups", CompactArray(("error_code", Int16), *_DESCRIBED)), TAGS)


class DescribeGroupsResponseV6(DescribeGroupsResponseV5):
    API_VERSION = 6
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("groups", CompactArray(("error_code", Int16), ("error_message", STRING), *_DESCRIBED)),
        TAGS,
    )


class DescribeGroupsRequestV5(RequestStruct):
    API_KEY = 15
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE: ClassVar[type[Response]] = DescribeGroupsResponseV5
    SCHEMA = Schema(("groups", CompactArray(STRING)), ("include_authorized_operations", Boolean), TAGS)


class DescribeGroupsRequestV6(DescribeGroupsRequestV5):
    API_VERSION = 6
    RESPONSE_TYPE = DescribeGroupsResponseV6


class DescribeGroups(Request[DescribeGroupsRequestV5 | DescribeGroupsRequestV6]):
    API_KEY = 15

    def __init__(self, group_ids: tuple[str, ...]) -> None:
        self._group_ids = group_ids

    def build(self, request_struct_class: type[StructT]) -> StructT:
        return fill(request_struct_class, groups=list(self._group_ids), include_authorized_operations=False)

    @staticmethod
    def read(response: Any) -> tuple[messages.GroupDescription, ...]:
        return tuple(_description(response.API_VERSION, group) for group in response.groups)


def _description(version: int, group: tuple[Any, ...]) -> messages.GroupDescription:
    error_code, *rest = group
    group_id, state, protocol_type, protocol, members, _, _ = rest if version < 6 else rest[1:]
    return messages.GroupDescription(
        error=KafkaErrorCode(error_code),
        group_id=group_id,
        state=state,
        protocol_type=protocol_type,
        protocol=protocol,
        members=tuple(
            messages.DescribedMember(
                member_id=MemberId(member_id),
                group_instance_id=worker_id(instance_id),
                client_id=client_id,
                client_host=client_host,
                metadata=metadata,
                assignment=assignment,
            )
            for member_id, instance_id, client_id, client_host, metadata, assignment, _ in members
        ),
    )


# ---- ListGroups (16)


class ListGroupsResponseV3(Response):
    API_KEY = 16
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("groups", CompactArray(("group_id", STRING), ("protocol_type", STRING), TAGS)),
        TAGS,
    )


class ListGroupsResponseV4(ListGroupsResponseV3):
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("groups", CompactArray(("group_id", STRING), ("protocol_type", STRING), ("group_state", STRING), TAGS)),
        TAGS,
    )


class ListGroupsResponseV5(ListGroupsResponseV4):
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "groups",
            CompactArray(
                ("group_id", STRING),
                ("protocol_type", STRING),
                ("group_state", STRING),
                ("group_type", STRING),
                TAGS,
            ),
        ),
        TAGS,
    )


class ListGroupsRequestV3(RequestStruct):
    API_KEY = 16
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE: ClassVar[type[Response]] = ListGroupsResponseV3
    SCHEMA = Schema(TAGS)


class ListGroupsRequestV4(ListGroupsRequestV3):
    API_VERSION = 4
    RESPONSE_TYPE = ListGroupsResponseV4
    SCHEMA = Schema(("states_filter", CompactArray(STRING)), TAGS)


class ListGroupsRequestV5(ListGroupsRequestV4):
    API_VERSION = 5
    RESPONSE_TYPE = ListGroupsResponseV5
    SCHEMA = Schema(("states_filter", CompactArray(STRING)), ("types_filter", CompactArray(STRING)), TAGS)


class ListGroups(Request[ListGroupsRequestV3 | ListGroupsRequestV4 | ListGroupsRequestV5]):
    API_KEY = 16

    def build(self, request_struct_class: type[StructT]) -> StructT:
        return fill(request_struct_class, states_filter=[], types_filter=[])

    @staticmethod
    def read(response: Any) -> messages.ListGroupsResponse:
        return messages.ListGroupsResponse(
            error=KafkaErrorCode(response.error_code),
            groups=tuple(
                messages.ListedGroup(
                    group_id=group[0], protocol_type=group[1], state=group[2] if response.API_VERSION >= 4 else ""
                )
                for group in response.groups
            ),
        )
