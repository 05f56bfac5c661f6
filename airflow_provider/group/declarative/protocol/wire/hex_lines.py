"""Decodes messages of a declarative group from lines of hex, as people copy them from a topic."""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_provider.group.declarative.protocol.wire import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.errors import placed
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    decode_reply,
    decode_request,
    reply_to_json,
    request_to_json,
)
from airflow_provider.group.declarative.protocol.wire.records import decode_record, record_to_json

_NO_HEX: Final = re.compile(rb"[^0-9a-fA-F]")


def decode_record_line(line: bytes) -> dict[str, Any]:
    """Decode the record in a line: hex of its key, a tab, hex of its value; without a tab it is a tombstone.

    :raises MalformedMessageError: the line is not a record
    """
    key, tab, value = line.partition(b"\t")
    return record_to_json(decode_record(_bytes_of(key, "key"), _bytes_of(value, "value") if tab else None))


def decode_request_line(line: bytes) -> dict[str, Any]:
    """Decode the request in a line. If there is a tab, the request is after it, and before it the record's key.

    :raises MalformedMessageError: the line is not a request
    """
    return request_to_json(decode_request(_bytes_of(line.rpartition(b"\t")[2], "request")))


def decode_reply_line(line: bytes) -> dict[str, Any]:
    """Decode the reply in a line. If there is a tab, the reply is after it, and before it the record's key.

    :raises MalformedMessageError: the line is not a reply
    """
    return reply_to_json(decode_reply(_bytes_of(line.rpartition(b"\t")[2], "reply")))


def _bytes_of(hexed: bytes, what: str) -> bytes:
    digits = hexed.rstrip(b"\r\n").replace(b" ", b"")
    with placed(what):
        odd = _NO_HEX.search(digits)
        if odd:
            found = f"found {odd[0].decode('ascii', 'backslashreplace')!r}"
            raise MalformedMessageError(odd.start() // 2, "two hex digits", found)
        if len(digits) % 2:
            raise MalformedMessageError(len(digits) // 2, "two hex digits", f"found {digits[-1:].decode()!r} alone")
    return bytes.fromhex(digits.decode())
