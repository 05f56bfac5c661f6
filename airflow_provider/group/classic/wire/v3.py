"""v3, ``extensible``: whole targets, and tasks that are learned before they move.

A message is the version, as in all others, and one flatbuffer: the table ``Metadata`` or ``Assignment`` of
``extensible.fbs``, which explains each field. A later version is read like this one. Unknown fields are ignored, and
absent ones have their defaults.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from airflow_provider.group.classic.wire import flatbuffer
from airflow_provider.group.classic.wire.extensible import VERSION, ExtensibleAssignment, ExtensibleState
from airflow_provider.group.classic.wire.flatbuffer import BOOL, F64, I16, I32, I64, Number, Piece, Table
from airflow_provider.values.model import ConfigOffset, Epoch, LocalProtocolError, MalformedEmbeddedError
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks

TASKS: Final = flatbuffer.slots("names", "sizes", "counts", "indexes")
METADATA: Final = flatbuffer.slots(
    "url", "config_offset", "owned", "learning", "progress", "ready", "leaving", "slots", "weight", "epoch", "failed"
)
ASSIGNMENT: Final = flatbuffer.slots(
    "error",
    "leader",
    "leader_url",
    "config_offset",
    "target",
    "revoked",
    "delay_ms",
    "learning",
    "learned",
    "another_round",
    "shutdown",
    "epoch",
)
_VERSION: Final = struct.Struct(">h")
WriteSet = Callable[[PackedTasks], Piece | None]
ReadSet = Callable[[str], PackedTasks | None]


def encode_metadata(state: ExtensibleState) -> bytes:
    """A worker's metadata for JoinGroup. The same state gives the same bytes, whatever the order of its sets.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    return _message(state.version, metadata_table(state, _tasks))


def metadata_table(state: ExtensibleState, tasks: WriteSet) -> Piece:
    """The table ``Metadata``.

    :param tasks: writes a set
    :raises LocalProtocolError: for a value that the format can't carry
    """
    _check_learning(state)
    progress = struct.pack(f"<{len(state.progress)}d", *state.progress)
    return _table(
        {
            "url": _text(state.url, "url"),
            "config_offset": _number(I64, state.config_offset, -1),
            "owned": tasks(state.owned),
            "learning": tasks(state.learning),
            "progress": flatbuffer.packed(progress, F64.size) if any(state.progress) else None,
            "ready": tasks(state.ready),
            "leaving": None if state.leaving is None else flatbuffer.text(state.leaving, "leaving"),
            "slots": _count(I32, state.slots, None, "slots"),
            "weight": _count(F64, state.weight, None, "weight"),
            "epoch": _count(I64, state.epoch, None, "epoch"),
            "failed": tasks(state.failed),
        },
        METADATA,
    )


def decode_metadata(data: bytes) -> ExtensibleState:
    """The inverse of :func:`encode_metadata`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it is
    """
    version, table = _root(data, METADATA)
    return metadata_from(version, table, partial(_read_tasks, table))


def metadata_from(version: int, table: Table, tasks: ReadSet) -> ExtensibleState:
    """The inverse of :func:`metadata_table`.

    :param tasks: reads the set that is the field with this name; None: it is absent
    :raises MalformedEmbeddedError: naming the field and the byte at which it is
    """
    learning = tasks("learning") or NOTHING
    return ExtensibleState(
        version=version,
        url=table.text("url") or "",
        config_offset=ConfigOffset(table.number("config_offset", I64, -1)),
        owned=tasks("owned") or NOTHING,
        learning=learning,
        progress=_read_progress(table, len(learning)),
        ready=tasks("ready") or NOTHING,
        leaving=table.text("leaving"),
        slots=table.number("slots", I32, None, least=0),
        weight=table.number("weight", F64, None, least=0),
        epoch=_epoch(table),
        failed=tasks("failed") or NOTHING,
    )


def encode_assignment(assignment: ExtensibleAssignment) -> bytes:
    """Encode a leader's assignment for one worker, for SyncGroup.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    return _message(assignment.version, assignment_table(assignment, _tasks))


def assignment_table(assignment: ExtensibleAssignment, tasks: WriteSet) -> Piece:
    """The table ``Assignment``, as :func:`metadata_table`."""
    target = assignment.target
    return _table(
        {
            "error": _number(I16, assignment.error, 0),
            "leader": _text(assignment.leader, "leader"),
            "leader_url": _text(assignment.leader_url, "leader_url"),
            "config_offset": _number(I64, assignment.config_offset, -1),
            "target": None if target is None else tasks(target) or _NO_TASKS,
            "revoked": tasks(assignment.revoked),
            "delay_ms": _count(I32, assignment.delay_ms, 0, "delay_ms"),
            "learning": tasks(assignment.learning),
            "learned": tasks(assignment.learned),
            "another_round": _number(BOOL, assignment.another_round, False),
            "shutdown": _number(BOOL, assignment.shutdown, False),
            "epoch": _count(I64, assignment.epoch, None, "epoch"),
        },
        ASSIGNMENT,
    )


def decode_assignment(data: bytes) -> ExtensibleAssignment:
    """The inverse of :func:`encode_assignment`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it is
    """
    version, table = _root(data, ASSIGNMENT)
    return assignment_from(version, table, partial(_read_tasks, table))


def assignment_from(version: int, table: Table, tasks: ReadSet) -> ExtensibleAssignment:
    """The inverse of :func:`assignment_table`, as :func:`metadata_from`."""
    return ExtensibleAssignment(
        version=version,
        error=table.number("error", I16, 0),
        leader=table.text("leader") or "",
        leader_url=table.text("leader_url") or "",
        config_offset=ConfigOffset(table.number("config_offset", I64, -1)),
        target=tasks("target"),
        revoked=tasks("revoked") or NOTHING,
        delay_ms=table.number("delay_ms", I32, 0, least=0),
        learning=tasks("learning") or NOTHING,
        learned=tasks("learned") or NOTHING,
        another_round=table.truth("another_round"),
        shutdown=table.truth("shutdown"),
        epoch=_epoch(table),
    )


def _check_learning(state: ExtensibleState) -> None:
    if state.progress and len(state.progress) != len(state.learning):
        raise LocalProtocolError(f"progress has {len(state.progress)} entries for {len(state.learning)} tasks")
    if not all(0 <= part <= 1 for part in state.progress):
        raise LocalProtocolError(f"progress must be from 0 to 1, unlike {state.progress}")
    if state.ready and not state.ready.tasks() <= state.learning.tasks():
        raise LocalProtocolError("a task that is ready must also be in what the worker learns")
    if state.failed and not state.failed.tasks() <= state.learning.tasks() - state.ready.tasks():
        raise LocalProtocolError("a task that has failed must also be in what the worker learns, and not be ready")


def _message(version: int, root: Piece) -> bytes:
    return version_bytes(version, VERSION) + flatbuffer.finished(root)


def version_bytes(version: int, first: int) -> bytes:
    """How a message begins.

    :param first: the first version of its format
    """
    if not first <= version < 2**15:
        raise LocalProtocolError(f"version {version} is not of this format, which begins with {first}")
    return _VERSION.pack(version)


def read_version(data: bytes, first: int) -> int:
    """The inverse of :func:`version_bytes`."""
    if len(data) < _VERSION.size:
        raise MalformedEmbeddedError(f"version at byte 0: needs {_VERSION.size} bytes, {len(data)} remain")
    version = int(_VERSION.unpack_from(data)[0])
    if version < first:
        raise MalformedEmbeddedError(f"version at byte 0: {version} is not of this format, which begins with {first}")
    return version


def _table(fields: Mapping[str, Number | Piece | None], slots: Mapping[str, int]) -> Piece:
    try:
        return flatbuffer.table([fields[name] for name in slots])
    except struct.error:
        raise _too_wide(fields) from None


def _too_wide(fields: Mapping[str, Number | Piece | None]) -> LocalProtocolError:
    for name, field in fields.items():
        if isinstance(field, Number):
            try:
                field.form.pack(field.value)
            except struct.error:
                return LocalProtocolError(f"{name} {field.value!r} is not a number of {field.form.size} bytes")
    return LocalProtocolError("the message is too long: offsets have four bytes")


def _number(form: struct.Struct, value: float | None, default: float | None) -> Number | None:
    """A number; None, which is not sent, if it has the default value."""
    return None if value is None or value == default else Number(form, value)


def _count(form: struct.Struct, value: float | None, default: float | None, field: str) -> Number | None:
    """As :func:`_number`, for values that can't be negative, infinite or NaN."""
    if value is not None and not 0 <= value < math.inf:
        raise LocalProtocolError(f"{field} must be a number from 0 on, not {value}")
    return _number(form, value, default)


def _text(value: str, field: str) -> Piece | None:
    return flatbuffer.text(value, field) if value else None


def _tasks(tasks: PackedTasks) -> Piece | None:
    if not tasks.sizes:
        return None
    return flatbuffer.table(
        [
            flatbuffer.string(tasks.names),
            flatbuffer.packed(tasks.sizes, 2),
            flatbuffer.packed(tasks.counts, 4),
            flatbuffer.packed(tasks.packed, 4),
        ]
    )


_NO_TASKS: Final = flatbuffer.table([])
"""A target that is present, and empty."""


def _root(data: bytes, slots: Mapping[str, int]) -> tuple[int, Table]:
    version = read_version(data, VERSION)
    return version, Table.root(data, _VERSION.size, slots)


def _read_tasks(table: Table, field: str) -> PackedTasks | None:
    inner = table.table(field, TASKS)
    if inner is None:
        return None
    names, sizes = inner.packed("names", 1), inner.packed("sizes", 2)
    try:
        return PackedTasks.checked(names, sizes, inner.packed("counts", 4), inner.packed("indexes", 4))
    except ValueError as wrong:
        raise table.malformed(field, str(wrong)) from None


def _read_progress(table: Table, tasks: int) -> tuple[float, ...]:
    packed = table.packed("progress", F64.size)
    progress = struct.unpack(f"<{len(packed) // F64.size}d", packed)
    if progress and len(progress) != tasks:
        raise table.malformed("progress", f"has {len(progress)} entries for {tasks} tasks")
    if not all(0 <= part <= 1 for part in progress):
        raise table.malformed("progress", "has an entry that is not from 0 to 1")
    return progress


def _epoch(table: Table) -> Epoch | None:
    epoch = table.number("epoch", I64, None, least=0)
    return None if epoch is None else Epoch(epoch)
