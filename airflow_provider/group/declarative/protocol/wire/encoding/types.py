"""The types that a field of a message can have, as values.

Names and bytes are those of Kafka's ``org.apache.kafka.common.protocol.types``. The *compact* types are those of
flexible versions (KIP-482): a length plus 1 is written as an unsigned varint, and null as 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from reprlib import repr as short
from struct import Struct
from typing import Annotated, Any, Final, TypeAlias

from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import (
    MalformedMessageError,
    UnwritableMessageError,
    within,
)

_LONGEST_STRING: Final = 2**15 - 1
"""In bytes. It also holds for compact strings: Kafka refuses longer ones."""


class Type(ABC):
    """A type of values that can be read, written, and shown as JSON."""

    __slots__ = ()

    @property
    @abstractmethod
    def least(self) -> int:
        """The least number of bytes of a value."""

    @abstractmethod
    def read(self, reader: Reader) -> Any:
        """Read a value.

        :raises MalformedMessageError: the next bytes are not a value of this type
        """

    @abstractmethod
    def write(self, writer: Writer, value: Any) -> None:
        """Write a value.

        :raises UnwritableMessageError: this type has no such value
        """

    def to_json(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class _Integer(Type):
    """An integer with a sign."""

    form: Struct

    @property
    def least(self) -> int:
        return self.form.size

    def read(self, reader: Reader) -> int:
        return reader.integer(self.form)

    def write(self, writer: Writer, value: int) -> None:
        writer.integer(self.form, value)


class _String(Type):
    """A string; its length is an int16."""

    __slots__ = ()
    least = 2

    def read(self, reader: Reader) -> str:
        start = reader.at
        size = reader.int16()
        if size < 0:
            raise MalformedMessageError(start, "a string", f"found a length of {size}")
        return _text(reader, size)

    def write(self, writer: Writer, value: str) -> None:
        encoded = _utf_8(value)
        writer.int16(len(encoded))
        writer.put(encoded)


class _CompactString(Type):
    __slots__ = ()
    least = 1

    def read(self, reader: Reader) -> str:
        start = reader.at
        size = _compact_length(reader, "a string")
        if size > _LONGEST_STRING:
            raise MalformedMessageError(
                start, f"a string of at most {_LONGEST_STRING} bytes", f"found a length of {size}"
            )
        return _text(reader, size)

    def write(self, writer: Writer, value: str) -> None:
        encoded = _utf_8(value)
        writer.unsigned_varint(len(encoded) + 1)
        writer.put(encoded)


class _CompactBytes(Type):
    __slots__ = ()
    least = 1

    def read(self, reader: Reader) -> bytes:
        return reader.take(_compact_length(reader, "bytes"))

    def write(self, writer: Writer, value: bytes) -> None:
        if not isinstance(value, bytes):
            raise UnwritableMessageError("bytes", f"found {short(value)}")
        writer.unsigned_varint(len(value) + 1)
        writer.put(value)

    def to_json(self, value: bytes) -> str:
        return value.hex()


@dataclass(frozen=True, slots=True)
class CompactArrayOf(Type):
    """Values of one type, as a tuple."""

    of: Type

    @property
    def least(self) -> int:
        return 1

    def read(self, reader: Reader) -> tuple[Any, ...]:
        start = reader.at
        count = _compact_length(reader, "an array")
        if count * self.of.least > reader.remaining:
            raise MalformedMessageError(
                start, f"an array that fits into {reader.remaining} bytes", f"found one of {count} entries"
            )
        entries: list[Any] = [None] * count
        read = self.of.read
        index = 0
        try:
            for index in range(count):
                entries[index] = read(reader)
        except MalformedMessageError as wrong:
            within(f"[{index}]", wrong)
            raise
        return tuple(entries)

    def write(self, writer: Writer, value: tuple[Any, ...]) -> None:
        if not isinstance(value, tuple):
            raise UnwritableMessageError("a tuple", f"found {short(value)}")
        writer.unsigned_varint(len(value) + 1)
        write = self.of.write
        index = 0
        try:
            for index, entry in enumerate(value):  # noqa: B007
                write(writer, entry)
        except UnwritableMessageError as wrong:
            within(f"[{index}]", wrong)
            raise

    def to_json(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.of.to_json(entry) for entry in value]


@dataclass(frozen=True, slots=True)
class CompactNullable(Type):
    """A compact type that may be null, which is written as length 0."""

    of: Type

    @property
    def least(self) -> int:
        return 1

    def read(self, reader: Reader) -> Any:
        if reader.next_is(0):
            reader.take(1)
            return None
        return self.of.read(reader)

    def write(self, writer: Writer, value: Any) -> None:
        if value is None:
            writer.unsigned_varint(0)
        else:
            self.of.write(writer, value)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.of.to_json(value)


@dataclass(frozen=True, slots=True)
class NullableStruct(Type):
    """A struct that may be null: the byte before it is -1 for null, or 1 (Kafka's ``NullableSchema``)."""

    of: Type

    @property
    def least(self) -> int:
        return 1

    def read(self, reader: Reader) -> Any:
        start = reader.at
        there = INT8.read(reader)
        if there == 1:
            return self.of.read(reader)
        if there == -1:
            return None
        raise MalformedMessageError(start, "-1 (null) or 1 before a struct", f"found {there}")

    def write(self, writer: Writer, value: Any) -> None:
        if value is None:
            INT8.write(writer, -1)
        else:
            INT8.write(writer, 1)
            self.of.write(writer, value)

    def to_json(self, value: Any) -> Any:
        return None if value is None else self.of.to_json(value)


INT8: Final = _Integer(Struct(">b"))
INT16: Final = _Integer(Struct(">h"))
INT32: Final = _Integer(Struct(">i"))
INT64: Final = _Integer(Struct(">q"))
STRING: Final = _String()
COMPACT_STRING: Final = _CompactString()
COMPACT_NULLABLE_STRING: Final = CompactNullable(COMPACT_STRING)
COMPACT_BYTES: Final = _CompactBytes()

Int8: TypeAlias = Annotated[int, INT8]
Int16: TypeAlias = Annotated[int, INT16]
Int32: TypeAlias = Annotated[int, INT32]
Int64: TypeAlias = Annotated[int, INT64]
Text: TypeAlias = Annotated[str, COMPACT_STRING]
NullableText: TypeAlias = Annotated[str | None, COMPACT_NULLABLE_STRING]
Bytes: TypeAlias = Annotated[bytes, COMPACT_BYTES]


def _compact_length(reader: Reader, what: str) -> int:
    start = reader.at
    size = reader.unsigned_varint() - 1
    if size < 0:
        raise MalformedMessageError(start, what, "found null")
    return size


def _text(reader: Reader, size: int) -> str:
    start = reader.at
    try:
        return str(reader.take(size), "utf-8")
    except UnicodeDecodeError as wrong:
        raise MalformedMessageError(start, "UTF-8", f"found {wrong.object[wrong.start]:#04x}: {wrong.reason}") from None


def _utf_8(value: str) -> bytes:
    if not isinstance(value, str):
        raise UnwritableMessageError("a string", f"found {short(value)}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as wrong:
        raise UnwritableMessageError(
            "a string that has a UTF-8 form", f"found {short(value)}: {wrong.reason}"
        ) from None
    if len(encoded) > _LONGEST_STRING:
        raise UnwritableMessageError(f"a string of at most {_LONGEST_STRING} bytes", f"found {len(encoded)} bytes")
    return encoded
