"""Replies that refuse requests, even if only the header of the request can be read."""

from __future__ import annotations

from typing import Any

from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import placed
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    REPLIES,
    REQUESTS,
    ApiKey,
    ReplyBody,
    ReplyHeader,
    RequestBody,
    RequestHeader,
)


def refusal(request: RequestBody, error_code: int, message: str) -> ReplyBody:
    """The reply that refuses this request."""
    body: ReplyBody = _body(REQUESTS.key_of(request), error_code, message)
    return body


def decode_request_header(data: bytes) -> RequestHeader:
    """The header of a request, whatever API and version it names.

    :raises MalformedMessageError: these bytes do not begin with one
    """
    with placed("header"):
        header: RequestHeader = REQUESTS.header.read(Reader(data))
    return header


def encode_refusal(api_key: int, correlation_id: int, *, error_code: int, message: str) -> bytes:
    """Write a reply that refuses a request. If the API is not known, it has only the fields that all replies have."""
    known = api_key if api_key in REPLIES.bodies else ApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT
    writer = Writer()
    REPLIES.header.write(writer, ReplyHeader(api_key=api_key, correlation_id=correlation_id))
    REPLIES.bodies[known].write(writer, _body(known, error_code, message))
    return writer.done()


def _body(api_key: int, error_code: int, message: str) -> Any:
    return REPLIES.bodies[api_key].make(error_code=error_code, error_message=message)
