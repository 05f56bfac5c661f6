"""Strategies for messages and records of the declarative group, and their schemas as the proposal has them.

``connect_schemas.json`` is taken from the text of the proposal, corrected as ``docs/protocol.md`` lists, and not from
our tables, so that it can check them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from airflow_provider.group.declarative.protocol.wire.encoding.structs import PlainStruct, Struct
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_BYTES,
    COMPACT_STRING,
    INT8,
    INT16,
    INT32,
    STRING,
    CompactArrayOf,
    CompactNullable,
    NullableStruct,
    Type,
)
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    REPLIES,
    REQUESTS,
    Reply,
    ReplyBody,
    ReplyHeader,
    Request,
    request_of,
)
from airflow_provider.group.declarative.protocol.wire.record_values import RECORD_TYPES
from airflow_provider.group.declarative.protocol.wire.records import Record

SCHEMAS: Final[Mapping[str, Any]] = {
    schema["name"]: schema for schema in json.loads((Path(__file__).parent / "connect_schemas.json").read_text())
}
_structs: Final[list[Struct | PlainStruct]] = [
    *REQUESTS.bodies.values(),
    *REPLIES.bodies.values(),
    *(record_type.key for record_type in RECORD_TYPES),
    *(record_type.value for record_type in RECORD_TYPES),
]
STRUCTS: Final = {struct.make.__name__: struct for struct in _structs}

_texts: Final = st.text(st.characters(codec="utf-8"), max_size=12)
_any_of: Final[Mapping[Type, st.SearchStrategy[Any]]] = {
    INT8: st.integers(-(2**7), 2**7 - 1),
    INT16: st.integers(-(2**15), 2**15 - 1),
    INT32: st.integers(-(2**31), 2**31 - 1),
    STRING: _texts,
    COMPACT_STRING: _texts | st.integers(120, 130).map("x".__mul__),  # around the length whose encoding takes two bytes
    COMPACT_BYTES: st.binary(max_size=12),
}


def values(of: Type) -> st.SearchStrategy[Any]:
    """Any value of a type."""
    if isinstance(of, CompactArrayOf):
        return st.lists(values(of.of), max_size=3).map(tuple)
    if isinstance(of, CompactNullable | NullableStruct):
        return st.none() | values(of.of)
    if isinstance(of, PlainStruct | Struct):
        tagged = [entry.field for entry in of.tagged] if isinstance(of, Struct) else []
        return st.builds(of.make, **{field.attribute: values(field.type) for field in [*of.fields, *tagged]})
    return _any_of[of]


def records() -> st.SearchStrategy[Record]:
    return st.one_of(
        *(st.builds(Record, values(one.key), st.none() | values(one.value)) for one in RECORD_TYPES),
    )


def requests() -> st.SearchStrategy[Request]:
    bodies = st.one_of(*map(values, REQUESTS.bodies.values()))
    return st.builds(request_of, bodies, correlation_id=values(INT32), reply_partition=values(INT32))


def reply_to(request: Request, body: ReplyBody) -> Reply:
    return Reply(ReplyHeader(api_key=request.header.api_key, correlation_id=request.header.correlation_id), body)


def replies() -> st.SearchStrategy[Reply]:
    return requests().flatmap(
        lambda request: st.builds(reply_to, st.just(request), values(REPLIES.bodies[request.header.api_key]))
    )
