"""What a coordinator keeps of its groups, as records of a compacted topic.

A key is an int16, which says what type of record it is, and then the fields of that key. A value is an int16, its
version, and then the fields of that value; a null value is a tombstone. Each type is one line of :data:`RECORD_TYPES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.declarative.wire import assignment_values, keys, metadata_values
from airflow_provider.declarative.wire.assignment_values import (
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    ConnectWorkerGroupTargetAssignmentValue,
)
from airflow_provider.declarative.wire.errors import UnwritableMessageError, placed
from airflow_provider.declarative.wire.keys import RecordKey
from airflow_provider.declarative.wire.metadata_values import (
    ConnectWorkerGroupConfigurationValue,
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    ConnectWorkerGroupMemberMetadataValue,
    ConnectWorkerGroupMetadataValue,
)
from airflow_provider.declarative.wire.reader import Reader
from airflow_provider.declarative.wire.structs import PlainStruct, Struct
from airflow_provider.declarative.wire.writer import Writer

RecordValue = (
    ConnectWorkerGroupMetadataValue
    | ConnectWorkerGroupConnectorsTasksMetadataValue
    | ConnectWorkerGroupMemberMetadataValue
    | ConnectWorkerGroupTargetAssignmentValue
    | ConnectWorkerGroupCurrentMemberAssignmentValue
    | ConnectWorkerGroupConfigurationValue
)

_VALUE_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class Record:
    """:param value: of the type that belongs to the key; None is a tombstone"""

    key: RecordKey
    value: RecordValue | None


@dataclass(frozen=True, slots=True)
class RecordType:
    """:param version: of the key, which is what tells the types apart"""

    version: int
    key: PlainStruct
    value: Struct


RECORD_TYPES: Final = (
    RecordType(3, keys.GROUP_METADATA_KEY, metadata_values.GROUP_METADATA_VALUE),
    RecordType(4, keys.CONNECTORS_TASKS_METADATA_KEY, metadata_values.CONNECTORS_TASKS_METADATA_VALUE),
    RecordType(5, keys.MEMBER_METADATA_KEY, metadata_values.MEMBER_METADATA_VALUE),
    RecordType(6, keys.TARGET_ASSIGNMENT_KEY, assignment_values.TARGET_ASSIGNMENT_VALUE),
    RecordType(7, keys.CURRENT_MEMBER_ASSIGNMENT_KEY, assignment_values.CURRENT_MEMBER_ASSIGNMENT_VALUE),
    RecordType(8, keys.CONFIGURATION_KEY, metadata_values.CONFIGURATION_VALUE),
)

_BY_VERSION: Final[Mapping[int, RecordType]] = MappingProxyType({one.version: one for one in RECORD_TYPES})
_BY_KEY: Final[Mapping[type, RecordType]] = MappingProxyType({one.key.make: one for one in RECORD_TYPES})


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Its key, and its value unless it is a tombstone.

    :raises UnwritableMessageError: the value is of another type than the key, or a field can't carry what it has
    """
    record_type = _BY_KEY[type(record.key)]
    with placed("key"):
        key = Writer()
        key.int16(record_type.version)
        record_type.key.write(key, record.key)
    if record.value is None:
        return key.done(), None
    with placed("value"):
        if type(record.value) is not record_type.value.make:
            raise UnwritableMessageError(f"a {record_type.value.name}", f"found a {type(record.value).__name__}")
        value = Writer()
        value.int16(_VALUE_VERSION)
        record_type.value.write(value, record.value)
    return key.done(), value.done()


def decode_record(key: bytes, value: bytes | None) -> Record:
    """The record of which these are key and value.

    :raises MalformedMessageError: they are not those of a record
    """
    with placed("key"):
        reader = Reader(key)
        with placed("version"):
            record_type = _BY_VERSION[reader.one_of(_BY_VERSION)]
        read = record_type.key.read(reader)
        reader.end()
    return Record(read, None if value is None else _decode_value(record_type.value, value))


def record_to_json(record: Record) -> dict[str, Any]:
    """With the names of the schemas; bytes are hex."""
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
