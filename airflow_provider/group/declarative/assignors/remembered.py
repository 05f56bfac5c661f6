"""What the cooperative assignor remembers from one assignment to the next. It is sent along with each member's target,
and comes back with the last targets of members and former members.

All fields are tagged. So it is empty for most members, and older releases understand newer ones that remember more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow_provider.group.declarative.protocol.model import AssignorMetadata
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.encoding.reader import Reader
from airflow_provider.group.declarative.protocol.wire.encoding.structs import Tag, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import Int8, Int64, Text
from airflow_provider.group.declarative.protocol.wire.encoding.writer import Writer
from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.parts import Units
from airflow_provider.values.model import NO_TASKS, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What is remembered of one member. Times are wall clock, milliseconds since 1970; 0: none.

    :param asks_at_ms: when the member is to ask for the next assignment
    :param next_moves_at_ms: until then, no task is taken from any worker of the group for balance
    :param until_ms: until then, the tasks of this former member wait for it
    :param awaited: whether the member itself has said when it returns
    :param instance_id: the name of a static member that has left; empty: it has none
    :param former: tasks that it had, and that are not configured now because their jobs are being planned anew
    """

    asks_at_ms: int = 0
    next_moves_at_ms: int = 0
    until_ms: int = 0
    awaited: bool = False
    instance_id: str = ""
    former: Tasks = NO_TASKS


NOTHING_REMEMBERED: Final = Remembered()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    asks_at_ms: Annotated[Int64, Tag(0)] = 0
    next_moves_at_ms: Annotated[Int64, Tag(1)] = 0
    until_ms: Annotated[Int64, Tag(2)] = 0
    awaited: Annotated[Int8, Tag(3)] = 0
    instance_id: Annotated[Text, Tag(4)] = ""
    former: Annotated[Units, Tag(5)] = ()


_STRUCT: Final = struct_of(_Fields)


def encode_remembered(remembered: Remembered, version: int) -> AssignorMetadata:
    """Write what is remembered.

    :param version: one that all members can read; the bytes are the same in all versions
    """
    if remembered == NOTHING_REMEMBERED:
        return AssignorMetadata(version=version)
    writer = Writer()
    fields = _Fields(
        asks_at_ms=remembered.asks_at_ms,
        next_moves_at_ms=remembered.next_moves_at_ms,
        until_ms=remembered.until_ms,
        awaited=int(remembered.awaited),
        instance_id=remembered.instance_id,
        former=units_of(remembered.former),
    )
    _STRUCT.write(writer, fields)
    return AssignorMetadata(version=version, data=writer.done())


def decode_remembered(metadata: AssignorMetadata) -> Remembered:
    """The inverse of :func:`encode_remembered`. Bytes that can't be understood count as empty."""
    if not metadata.data:
        return NOTHING_REMEMBERED
    try:
        reader = Reader(metadata.data)
        fields: _Fields = _STRUCT.read(reader)
        reader.end()
    except MalformedMessageError:
        return NOTHING_REMEMBERED
    return Remembered(
        asks_at_ms=fields.asks_at_ms,
        next_moves_at_ms=fields.next_moves_at_ms,
        until_ms=fields.until_ms,
        awaited=bool(fields.awaited),
        instance_id=fields.instance_id,
        former=tasks_of(fields.former),
    )
