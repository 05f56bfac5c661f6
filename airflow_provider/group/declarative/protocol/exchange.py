"""Reads requests from their topic's records: the request, and where its reply goes, or why it can't be handled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_provider.group.declarative.protocol.sharding import REPLIES_TOPIC, Layout, partition_of
from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    REQUESTS,
    Reply,
    ReplyBody,
    ReplyHeader,
    RequestBody,
    RequestHeader,
    decode_request,
    encode_reply,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import decode_request_header, encode_refusal
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

_LONGEST_READER: Final = 64
_VERSIONS: Final = (0,)


class RawRequest(NamedTuple):
    """A record of the topic of requests.

    :param key: the id of the reader of the reply, as bytes. The reply has the same key, so that readers which share a
        partition recognize their own replies: correlation ids are unique for one reader only
    """

    offset: int
    key: bytes | None
    value: bytes | None


class Write(NamedTuple):
    """A record to be written to any of the topics."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ReplyAddress:
    """Where a reply has to go."""

    api_key: int
    correlation_id: int
    partition: int
    reader: bytes | None

    def reply(self, body: ReplyBody) -> Write:
        """The record of a reply.

        :raises UnwritableMessageError: the reply does not belong to the request's API
        """
        header = ReplyHeader(api_key=self.api_key, correlation_id=self.correlation_id)
        return self._write(encode_reply(Reply(header, body)))

    def refusal(self, error_code: KafkaErrorCode, message: str) -> Write:
        """The record of a reply that refuses the request."""
        return self._write(
            encode_refusal(self.api_key, self.correlation_id, error_code=int(error_code), message=message)
        )

    def _write(self, value: bytes) -> Write:
        return Write(REPLIES_TOPIC, self.partition, self.reader, value)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the coordinator handles."""

    address: ReplyAddress
    header: RequestHeader
    body: RequestBody


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is refused without the coordinator."""

    address: ReplyAddress
    error_code: KafkaErrorCode
    message: str

    def write(self) -> Write:
        """The record of the refusal."""
        return self.address.refusal(self.error_code, self.message)


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """A request that can't be answered, because it does not say where."""

    reason: str


def read_request(raw: RawRequest, *, shard: int, layout: Layout) -> Asked | Refused | Unanswerable:
    """Read a record of the topic of requests. Never raises, whatever its bytes are."""
    data = raw.value or b""
    try:
        header = decode_request_header(data)
    except MalformedMessageError as wrong:
        return Unanswerable(str(wrong))
    if not 0 <= header.reply_partition < layout.replies:
        return Unanswerable(f"it wants its reply in partition {header.reply_partition}; there are {layout.replies}")
    key = raw.key if raw.key is not None and len(raw.key) <= _LONGEST_READER else None
    address = ReplyAddress(header.api_key, header.correlation_id, header.reply_partition, key)
    if header.api_key not in REQUESTS.bodies or header.api_version not in _VERSIONS:
        return Refused(
            address,
            KafkaErrorCode.UNSUPPORTED_VERSION,
            f"this coordinator has no version {header.api_version} of API {header.api_key}",
        )
    try:
        body = decode_request(data).body
    except MalformedMessageError as wrong:
        return Refused(address, KafkaErrorCode.INVALID_REQUEST, str(wrong))
    if body.group_id and partition_of(body.group_id, layout.shards) != shard:
        return Refused(
            address,
            KafkaErrorCode.NOT_COORDINATOR,
            f"group {body.group_id!r} does not belong to shard {shard} of {layout.shards}: find its partition again",
        )
    return Asked(address, header, body)
