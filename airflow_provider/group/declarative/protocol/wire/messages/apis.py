"""Requests and replies as they are written to their topics: a header, then a body of the proposal's schemas.

The header of a request has an api key, a version, a correlation id, which the reply repeats, and the partition in which
the member reads its replies. The header of a reply has no partition. Both are flexible, so that fields can be added. In
tagged fields, a client says its client id and its host, which a broker would know from the connection.

The api keys are not assigned by Kafka, because no broker has these APIs. They are far above Kafka's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, TypeVar

from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Struct, Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import Int16, Int32, Text
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import UnwritableMessageError, placed
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
)

MemberRequestBody = (
    ConnectGroupHeartbeatRequest | ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest
)
RequestBody = MemberRequestBody | ConnectGroupAlterConfigsRequest
ReplyBody = (
    ConnectGroupHeartbeatResponse
    | ConnectGroupPrepareAssignmentResponse
    | ConnectGroupInstallAssignmentResponse
    | ConnectGroupAlterConfigsResponse
)

_VERSION: Final = 0


class ApiKey(IntEnum):
    """The kind of a request, or of the request that a reply answers."""

    CONNECT_GROUP_HEARTBEAT = 1001
    CONNECT_GROUP_PREPARE_ASSIGNMENT = 1002
    CONNECT_GROUP_INSTALL_ASSIGNMENT = 1003
    CONNECT_GROUP_ALTER_CONFIGS = 1004
    """Not in the proposal. It is sent for people, not by members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """The header of a request.

    :param reply_partition: the partition of the topic of replies which the sender reads
    :param client_id: the client id of its Kafka client, for people
    :param client_host: the host of that client, for people
    """

    api_key: Int16
    api_version: Int16 = _VERSION
    correlation_id: Int32
    reply_partition: Int32
    client_id: Annotated[Text, Tag(0)] = ""
    client_host: Annotated[Text, Tag(1)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyHeader:
    """The header of a reply.

    :param correlation_id: that of the request
    """

    api_key: Int16
    api_version: Int16 = _VERSION
    correlation_id: Int32


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it is written to its topic."""

    header: RequestHeader
    body: RequestBody


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as it is written to its topic."""

    header: ReplyHeader
    body: ReplyBody


MessageT = TypeVar("MessageT", Request, Reply)


@dataclass(frozen=True, slots=True)
class _Form(Generic[MessageT]):
    """The format of requests, or of replies.

    :param make: makes a message of header and body
    :param header: the schema of headers
    :param bodies: the schemas of bodies, by api key
    """

    make: type[MessageT]
    header: Struct
    bodies: Mapping[int, Struct]

    def key_of(self, body: RequestBody | ReplyBody) -> int:
        return next(key for key, struct in self.bodies.items() if struct.make is type(body))

    def encode(self, message: MessageT) -> bytes:
        """Write a message.

        :raises UnwritableMessageError: a field can't hold its value, or the body belongs to another api key
        """
        writer = Writer()
        with placed("header"):
            self.header.write(writer, message.header)
        body = self.bodies[message.header.api_key]
        with placed("body"):
            if type(message.body) is not body.make:
                raise UnwritableMessageError(f"a {body.make.__name__}", f"found a {type(message.body).__name__}")
            body.write(writer, message.body)
        return writer.done()

    def decode(self, data: bytes) -> MessageT:
        """Read a message. The first two fields of the header are read first, because they say how to read the rest.

        :raises MalformedMessageError: these bytes are not such a message
        """
        reader = Reader(data)
        with placed("header"):
            with placed("ApiKey"):
                body = self.bodies[reader.one_of(self.bodies)]
            with placed("ApiVersion"):
                reader.one_of((_VERSION,))
            reader.at = 0
            header = self.header.read(reader)
        with placed("body"):
            read = body.read(reader)
            reader.end()
        return self.make(header, read)

    def to_json(self, message: MessageT) -> dict[str, Any]:
        """A message as JSON, with the field names of the schemas; bytes are hex."""
        body = self.bodies[message.header.api_key]
        return {"header": self.header.to_json(message.header), "body": body.to_json(message.body)}


REQUESTS: Final = _Form(
    Request,
    struct_of(RequestHeader),
    MappingProxyType(
        {
            ApiKey.CONNECT_GROUP_HEARTBEAT: struct_of(ConnectGroupHeartbeatRequest),
            ApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT: struct_of(ConnectGroupPrepareAssignmentRequest),
            ApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT: struct_of(ConnectGroupInstallAssignmentRequest),
            ApiKey.CONNECT_GROUP_ALTER_CONFIGS: struct_of(ConnectGroupAlterConfigsRequest),
        }
    ),
)
REPLIES: Final = _Form(
    Reply,
    struct_of(ReplyHeader),
    MappingProxyType(
        {
            ApiKey.CONNECT_GROUP_HEARTBEAT: struct_of(ConnectGroupHeartbeatResponse),
            ApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT: struct_of(ConnectGroupPrepareAssignmentResponse),
            ApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT: struct_of(ConnectGroupInstallAssignmentResponse),
            ApiKey.CONNECT_GROUP_ALTER_CONFIGS: struct_of(ConnectGroupAlterConfigsResponse),
        }
    ),
)


def request_of(
    body: RequestBody, *, correlation_id: int, reply_partition: int, client_id: str = "", client_host: str = ""
) -> Request:
    header = RequestHeader(
        api_key=REQUESTS.key_of(body),
        correlation_id=correlation_id,
        reply_partition=reply_partition,
        client_id=client_id,
        client_host=client_host,
    )
    return Request(header, body)


encode_request: Final = REQUESTS.encode
decode_request: Final = REQUESTS.decode
request_to_json: Final = REQUESTS.to_json
encode_reply: Final = REPLIES.encode
decode_reply: Final = REPLIES.decode
reply_to_json: Final = REPLIES.to_json
