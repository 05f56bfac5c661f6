"""Replies that refuse requests, even if only the header of the request can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from airflow_provider.group.declarative.protocol.model import MemberEpoch
from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import placed
from airflow_provider.group.declarative.protocol.wire.messages import install_assignment
from airflow_provider.group.declarative.protocol.wire.messages.alter_configs import ConnectGroupAlterConfigsResponse
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    REPLIES,
    REQUESTS,
    ApiKey,
    Reply,
    ReplyBody,
    ReplyHeader,
    RequestBody,
    RequestHeader,
)
from airflow_provider.group.declarative.protocol.wire.messages.heartbeat import ConnectGroupHeartbeatResponse
from airflow_provider.group.declarative.protocol.wire.messages.install_assignment import (
    ConnectGroupInstallAssignmentResponse,
)
from airflow_provider.group.declarative.protocol.wire.messages.prepare_assignment import (
    ConnectGroupPrepareAssignmentResponse,
)


def heartbeat_refusal(error_code: int, message: str) -> ConnectGroupHeartbeatResponse:
    """The reply that refuses a heartbeat."""
    return ConnectGroupHeartbeatResponse(
        error_code=error_code, error_message=message, member_epoch=MemberEpoch(0), heartbeat_interval_ms=0
    )


def _prepare(error_code: int, message: str) -> ReplyBody:
    return ConnectGroupPrepareAssignmentResponse(error_code=error_code, error_message=message)


def _install(error_code: int, message: str) -> ConnectGroupInstallAssignmentResponse:
    return ConnectGroupInstallAssignmentResponse(error_code=error_code, error_message=message)


def _alter(error_code: int, message: str) -> ReplyBody:
    return ConnectGroupAlterConfigsResponse(error_code=error_code, error_message=message)


_BODIES: Final[Mapping[int, Callable[[int, str], ReplyBody]]] = MappingProxyType(
    {
        ApiKey.CONNECT_GROUP_HEARTBEAT: heartbeat_refusal,
        ApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT: _prepare,
        ApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT: _install,
        ApiKey.CONNECT_GROUP_ALTER_CONFIGS: _alter,
    }
)


def refusal(request: RequestBody, error_code: int, message: str) -> ReplyBody:
    """The reply that refuses this request."""
    return _BODIES[REQUESTS.key_of(request)](error_code, message)


def decode_request_header(data: bytes) -> RequestHeader:
    """The header of a request, whatever API and version it names.

    :raises MalformedMessageError: these bytes do not begin with one
    """
    with placed("header"):
        header: RequestHeader = REQUESTS.header.read(Reader(data))
    return header


def encode_refusal(api_key: int, correlation_id: int, *, error_code: int, message: str) -> bytes:
    """Write a reply that refuses a request. If the API is not known, it has only the fields that all replies have."""
    header = ReplyHeader(api_key=api_key, correlation_id=correlation_id)
    body = _BODIES.get(api_key)
    if body is not None:
        return REPLIES.encode(Reply(header, body(error_code, message)))
    writer = Writer()
    REPLIES.header.write(writer, header)
    install_assignment.RESPONSE.write(writer, _install(error_code, message))
    return writer.done()
