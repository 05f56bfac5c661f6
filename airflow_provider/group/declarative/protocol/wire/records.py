"""The records of a coordinator, which it keeps in a compacted topic.

A key begins with an int16, the type of the record, and then has the fields of that key. A value begins with an int16,
its version, and then has the fields of that value; a null value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Struct
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import (
    MalformedMessageError,
    UnwritableMessageError,
    placed,
)
from airflow_provider.group.declarative.protocol.wire.record_values import (
    RECORD_TYPES,
    RecordKey,
    RecordType,
    RecordValue,
)

_VALUE_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A record.

    :param value: of the type that belongs to the key; None: a tombstone
    """

    key: RecordKey
    value: RecordValue | None


_BY_VERSION: Final[Mapping[int, RecordType]] = MappingProxyType({one.version: one for one in RECORD_TYPES})
_BY_KEY: Final[Mapping[type, RecordType]] = MappingProxyType({one.key.make: one for one in RECORD_TYPES})


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Write a record's key and value; the value of a tombstone is None.

    :raises UnwritableMessageError: the value does not belong to the key, or a field can't hold its value
    """
    record_type = _BY_KEY[type(record.key)]
    with placed("key"):
        key = Writer()
        key.int16(record_type.version)
        record_type.key.write(key, record.key)
    if record.value is None:
        return key.done(), None
    with placed("value"):
        expected = record_type.value.make
        if type(record.value) is not expected:
            raise UnwritableMessageError(f"a {expected.__name__}", f"found a {type(record.value).__name__}")
        value = Writer()
        value.int16(_VALUE_VERSION)
        record_type.value.write(value, record.value)
    return key.done(), value.done()


def decode_record(key: bytes, value: bytes | None) -> Record:
    """Read a record.

    :raises MalformedMessageError: these are not the key and the value of a record
    """
    with placed("key"):
        reader = Reader(key)
        with placed("version"):
            record_type = _BY_VERSION[reader.one_of(_BY_VERSION)]
        read = record_type.key.read(reader)
        reader.end()
    return Record(read, None if value is None else _decode_value(record_type.value, value))


def group_id_of(key: bytes | None) -> str | None:
    """The id of the group whose record has this key. None: it is no such key."""
    try:
        return decode_record(key or b"", None).key.group_id
    except MalformedMessageError:
        return None


def record_to_json(record: Record) -> dict[str, Any]:
    """A record as JSON, with the field names of the schemas; bytes are hex."""
    record_type = _BY_KEY[type(record.key)]
    return {
        "key": {"version": record_type.version, **record_type.key.to_json(record.key)},
        "value": None if record.value is None else record_type.value.to_json(record.value),
    }


def _decode_value(struct: Struct, data: bytes) -> Any:
    with placed("value"):
        reader = Reader(data)
        with placed("version"):
            reader.one_of((_VALUE_VERSION,))
        value = struct.read(reader)
        reader.end()
        return value
