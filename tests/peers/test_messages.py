"""The declarative group's messages and records, compared with Kafka's own types built from the proposal's schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages import SCHEMAS, STRUCTS, values
from referee import Referee, RefusedByJavaError

from airflow_provider.group.declarative.protocol.wire import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.types import Type
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer

# The time limit leaves room for fetching Connect's jars once.
pytestmark = pytest.mark.peers

many = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
each_message = pytest.mark.parametrize("name", SCHEMAS)


def written(of: Type, value: Any) -> bytes:
    writer = Writer()
    of.write(writer, value)
    return writer.done()


def read(of: Type, data: bytes) -> Any:
    reader = Reader(data)
    value = of.read(reader)
    reader.end()
    return value


@each_message
@many
@given(data=st.data())
def test_java_writes_and_reads_the_same_bytes(referee: Referee, name: str, data: st.DataObject) -> None:
    value = data.draw(values(STRUCTS[name]))
    as_json = STRUCTS[name].to_json(value)
    ours = written(STRUCTS[name], value)
    assert referee.encode_message(SCHEMAS[name], as_json) == ours
    assert referee.decode_message(SCHEMAS[name], ours) == as_json


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if schema["flexible"]])
@many
@given(data=st.data(), tag=st.integers(64, 2**31 - 1), unknown=st.binary(max_size=200))
def test_fields_of_later_versions_are_skipped(
    referee: Referee, name: str, data: st.DataObject, tag: int, unknown: bytes
) -> None:
    value = data.draw(values(STRUCTS[name]))
    theirs = referee.encode_message(SCHEMAS[name], STRUCTS[name].to_json(value), unknown=(tag, unknown))
    assert read(STRUCTS[name], theirs) == value


@each_message
@many
@given(data=st.data())
def test_java_reads_the_same_from_damaged_bytes_that_we_accept(
    referee: Referee, name: str, data: st.DataObject
) -> None:
    """Not the reverse: Java accepts more, for instance bytes that are not UTF-8."""
    damaged = bytearray(written(STRUCTS[name], data.draw(values(STRUCTS[name]))))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = read(STRUCTS[name], bytes(damaged))
    except MalformedMessageError:
        return
    try:
        theirs = referee.decode_message(SCHEMAS[name], bytes(damaged))
    except RefusedByJavaError as wrong:
        pytest.fail(f"{bytes(damaged).hex()}: we read {value}, Java says {wrong}")
    shown = STRUCTS[name].to_json(value)
    assert {field: theirs[field] for field in shown} == shown
