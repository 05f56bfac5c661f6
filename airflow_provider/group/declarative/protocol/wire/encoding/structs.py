"""Structs: tables of fields, for messages and their parts.

A table has the field names of the schema. Each field is an attribute of a dataclass, with the same name in Python's
spelling: ``GroupId`` is ``group_id``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import field as of_dataclass
from typing import Any

from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.types import Type
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import (
    MalformedMessageError,
    UnwritableMessageError,
    within,
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema.

    :param attribute: the dataclass's attribute; by default the name in Python's spelling
    """

    name: str
    type: Type
    attribute: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attribute", self.attribute or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower())

    def read(self, reader: Reader) -> Any:
        try:
            return self.type.read(reader)
        except MalformedMessageError as wrong:
            within(self.name, wrong)
            raise

    def write(self, writer: Writer, value: Any) -> None:
        try:
            self.type.write(writer, getattr(value, self.attribute))
        except UnwritableMessageError as wrong:
            within(self.name, wrong)
            raise

    def to_json(self, value: Any) -> Any:
        return self.type.to_json(getattr(value, self.attribute))


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A field that is written only if its value is not ``default``. Readers that do not know it skip it (KIP-482)."""

    tag: int
    field: Field
    default: Any

    def is_written(self, value: Any) -> bool:
        return bool(getattr(value, self.field.attribute) != self.default)


@dataclass(frozen=True, slots=True)
class PlainStruct(Type):
    """A struct of a version that is not flexible: fields one after the other, and nothing else.

    :param name: the name of the schema
    :param make: the dataclass
    """

    name: str
    make: type[Any]
    fields: tuple[Field, ...]
    least: int = of_dataclass(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", sum(field.type.least for field in self.fields))

    def read(self, reader: Reader) -> Any:
        return self.make(**{field.attribute: field.read(reader) for field in self.fields})

    def write(self, writer: Writer, value: Any) -> None:
        for field in self.fields:
            field.write(writer, value)

    def to_json(self, value: Any) -> dict[str, Any]:
        return {field.name: field.to_json(value) for field in self.fields}


@dataclass(frozen=True, slots=True)
class Struct(Type):
    """A struct of a flexible version: fields one after the other, then a section of tagged fields.

    Unknown tagged fields are skipped.

    :param name: the name of the schema
    :param make: the dataclass
    :param tagged: in the order of their tags
    """

    name: str
    make: type[Any]
    fields: tuple[Field, ...]
    tagged: tuple[TaggedField, ...] = ()
    least: int = of_dataclass(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", 1 + sum(field.type.least for field in self.fields))

    def read(self, reader: Reader) -> Any:
        values = {field.attribute: field.read(reader) for field in self.fields}
        if reader.next_is(0):
            reader.take(1)
        else:
            self._read_tagged(reader, values)
        return self.make(**values)

    def write(self, writer: Writer, value: Any) -> None:
        for field in self.fields:
            field.write(writer, value)
        tagged = [entry for entry in self.tagged if entry.is_written(value)]
        writer.unsigned_varint(len(tagged))
        for entry in tagged:
            inner = Writer()
            entry.field.write(inner, value)
            encoded = inner.done()
            writer.unsigned_varint(entry.tag)
            writer.unsigned_varint(len(encoded))
            writer.put(encoded)

    def to_json(self, value: Any) -> dict[str, Any]:
        """Show the fields by their names; tagged fields only if they are written."""
        shown = [*self.fields, *(entry.field for entry in self.tagged if entry.is_written(value))]
        return {field.name: field.to_json(value) for field in shown}

    def _read_tagged(self, reader: Reader, values: dict[str, Any]) -> None:
        known = {entry.tag: entry.field for entry in self.tagged}
        last = -1
        try:
            for _ in range(reader.unsigned_varint()):
                last = _tag(reader, above=last)
                size = reader.unsigned_varint()
                if last in known:
                    values[known[last].attribute] = _sized(reader, known[last], size)
                else:
                    reader.take(size)
        except MalformedMessageError as wrong:
            within("(tagged fields)", wrong)
            raise


def _tag(reader: Reader, *, above: int) -> int:
    start = reader.at
    tag = reader.unsigned_varint()
    if tag <= above:
        raise MalformedMessageError(start, f"a tag above {above}", f"found {tag}")
    return tag


def _sized(reader: Reader, field: Field, size: int) -> Any:
    start = reader.at
    value = field.read(reader)
    if reader.at - start != size:
        raise MalformedMessageError(start, f"a field of {size} bytes", f"{field.name} has {reader.at - start}")
    return value
