"""Structs: tables of fields, for messages and their parts.

A table is read from a dataclass. The type of each of its fields is annotated with the type on the wire, and with a tag
if it is a tagged field. The dataclass has the fields in the order of the schema, and their names in Python's spelling:
``GroupId`` is ``group_id``.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as of_dataclass
from dataclasses import fields as fields_of_dataclass
from typing import Any, NamedTuple, get_type_hints

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

    :param attribute: the attribute that has its value
    """

    name: str
    type: Type
    attribute: str

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


class Tag(NamedTuple):
    """Annotates a tagged field; its default is that of the dataclass."""

    tag: int


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

    :param make: the dataclass
    """

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

    :param make: the dataclass
    :param tagged: in the order of their tags
    """

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


def struct_of(make: type[Any]) -> Struct:
    """The struct of this dataclass."""
    fields: list[Field] = []
    tagged: list[TaggedField] = []
    types = get_type_hints(make, include_extras=True)
    for one in fields_of_dataclass(make):
        on_the_wire, *tags = types[one.name].__metadata__
        field = Field(one.name.title().replace("_", ""), on_the_wire, one.name)
        if tags:
            tagged.append(TaggedField(tags[0].tag, field, one.default))
        else:
            fields.append(field)
    return Struct(make, tuple(fields), tuple(tagged))


def plain_struct_of(make: type[Any]) -> PlainStruct:
    """The struct of this dataclass, in a version that is not flexible."""
    return PlainStruct(make, struct_of(make).fields)


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
