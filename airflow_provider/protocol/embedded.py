"""Connect's embedded protocol: what members and leader tell each other inside JoinGroup and SyncGroup, as bytes.

The coordinator passes these bytes on without looking at them. They are those of Java's ``ConnectProtocol`` (v0) and
``IncrementalCooperativeConnectProtocol`` (v1, v2), written in Kafka's old, non-flexible types, big-endian:

======================  ==================================================================================
metadata                version i16, url STRING, config-offset i64; from v1 on: allocation NULLABLE_BYTES
assignment              version i16, error i16, leader STRING, leader-url STRING, config-offset i64,
                        assignment [job]; from v1 on: revoked [job], delay i32
job                     connector STRING, tasks [i32]; task -1 is the connector itself, here the planner
======================  ==================================================================================

STRING has a length of 16 bits, arrays and bytes one of 32. The allocation is an assignment with a header of its own:
what the member owns. From v1 on ``allocation``, ``assignment`` and ``revoked`` may be null (length -1), and fields
missing at the end take their defaults. v2 differs from v1 by its number only. Any later version is read like v2, and
what follows the last known field is ignored, as Java does.

Stricter than Java, because no peer writes such bytes and each would do harm further in: a length below -1 (Java: null),
text that isn't UTF-8 (Java: replacement characters, so another job's name), a task below -1.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Final

from airflow_provider.protocol.model import (
    NO_TASKS,
    PLANNER_INDEX,
    Assignment,
    ConfigOffset,
    LocalProtocolError,
    MalformedEmbeddedError,
    TaskId,
    Tasks,
    WorkerState,
)

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_NULL: Final = -1
_MAX_STRING: Final = 2**15 - 1
_task: Final[Callable[[tuple[str, int]], TaskId]] = partial(tuple.__new__, TaskId)
"""From a pair, in half the time of the class's own ``_make``: a leader reads a hundred thousand tasks a round."""
_SMALLEST_JOB: Final = _I16.size + _I32.size
"""Bytes of a job with an empty name and no tasks: what each entry of an array of jobs takes at least."""


def encode_metadata(state: WorkerState) -> bytes:
    """A member's metadata for JoinGroup. The same state always gives the same bytes, whatever the order of its sets.

    An own assignment that says nothing at all (no leader, no tasks, no offset) is sent as null, as Java does.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    out = _Writer()
    out.version(state.version)
    out.string(state.url, "url")
    out.integer(_I64, state.config_offset, "config_offset")
    if state.version == 0:
        if state.assignment is not None:
            raise LocalProtocolError("metadata of v0 has no room for an assignment: its member has stopped everything")
    elif state.assignment is None or state.assignment == Assignment(version=state.assignment.version):
        out.integer(_I32, _NULL, "allocation")
    else:
        allocation = _Writer()
        _write_incremental(allocation, state.assignment)
        out.nested(allocation, "allocation")
    return out.done()


def decode_metadata(data: bytes) -> WorkerState:
    """The inverse of :func:`encode_metadata`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it starts
    """
    cursor = _Cursor(data, at=0, end=len(data))
    version = cursor.version()
    url = cursor.string("url")
    config_offset = cursor.integer(_I64, "config_offset")
    assignment = None
    if version > 0 and cursor.remaining:
        size = cursor.length("allocation", smallest_entry=1, null_allowed=True)
        if size != _NULL:
            nested = _Cursor(data, at=cursor.at, end=cursor.at + size, path="allocation.")
            assignment = _read_incremental(nested, nested.version())
    return WorkerState(version=version, url=url, config_offset=ConfigOffset(config_offset), assignment=assignment)


def encode_assignment(assignment: Assignment) -> bytes:
    """A leader's word to one member, for SyncGroup. Tasks are written sorted, so the bytes depend on nothing else.

    :raises LocalProtocolError: for a value that the format can't carry
    """
    out = _Writer()
    if assignment.version == 0:
        _write_eager(out, assignment)
    else:
        _write_incremental(out, assignment)
    return out.done()


def decode_assignment(data: bytes) -> Assignment:
    """The inverse of :func:`encode_assignment`.

    :raises MalformedEmbeddedError: naming the field and the byte at which it starts
    """
    cursor = _Cursor(data, at=0, end=len(data))
    version = cursor.version()
    return _read_eager(cursor, version) if version == 0 else _read_incremental(cursor, version)


class _Writer:
    """Collects fields; every complaint names the field."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        return b"".join(self._parts)

    def version(self, version: int) -> None:
        if version < 0:
            raise LocalProtocolError(f"version {version} is negative")
        self.integer(_I16, version, "version")

    def integer(self, form: struct.Struct, value: int, field: str) -> None:
        try:
            self._parts.append(form.pack(value))
        except struct.error:
            raise LocalProtocolError(f"{field} {value!r} is no integer of {form.size} bytes") from None

    def string(self, text: str, field: str) -> None:
        try:
            encoded = text.encode()
        except UnicodeEncodeError as wrong:
            raise LocalProtocolError(f"{field} {text!r} has no UTF-8 form: {wrong.reason}") from None
        if len(encoded) > _MAX_STRING:
            raise LocalProtocolError(f"{field} takes {len(encoded)} bytes, the format carries at most {_MAX_STRING}")
        self.integer(_I16, len(encoded), field)
        self._parts.append(encoded)

    def nested(self, inner: _Writer, field: str) -> None:
        encoded = inner.done()
        self.integer(_I32, len(encoded), field)
        self._parts.append(encoded)

    def jobs(self, tasks: Tasks, field: str) -> None:
        by_job: defaultdict[str, list[int]] = defaultdict(list)
        for task in tasks:
            by_job[task[0]].append(task[1])
        self.integer(_I32, len(by_job), field)
        for job, indexes in sorted(by_job.items()):
            indexes.sort()
            if indexes[0] < PLANNER_INDEX:
                raise LocalProtocolError(f"{field} has task {indexes[0]} of {job!r}; the lowest is {PLANNER_INDEX}")
            self.string(job, f"{field}: job")
            try:
                self._parts.append(struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
            except struct.error:
                raise LocalProtocolError(f"{field} has task {indexes[-1]} of {job!r}, more than 4 bytes hold") from None


def _write_eager(out: _Writer, assignment: Assignment) -> None:
    if assignment.revoked or assignment.delay_ms:
        raise LocalProtocolError("an assignment of v0 is the whole of it: it has no room for revoked tasks or a delay")
    _write_head(out, assignment)
    out.jobs(assignment.assigned, "assigned")


def _write_incremental(out: _Writer, assignment: Assignment) -> None:
    _write_head(out, assignment)
    out.jobs(assignment.assigned, "assigned")
    out.jobs(assignment.revoked, "revoked")
    out.integer(_I32, assignment.delay_ms, "delay")


def _write_head(out: _Writer, assignment: Assignment) -> None:
    out.version(assignment.version)
    out.integer(_I16, assignment.error, "error")
    out.string(assignment.leader, "leader")
    out.string(assignment.leader_url, "leader_url")
    out.integer(_I64, assignment.config_offset, "config_offset")


class _Cursor:
    """Reads fields from ``data[at:end]``.

    Every length is checked against what remains before anything is read or made, so neither time nor memory can exceed
    a small multiple of the input's size. Every complaint names the field and where it starts in ``data``.
    """

    __slots__ = ("_data", "_end", "_path", "at")

    def __init__(self, data: bytes, *, at: int, end: int, path: str = "") -> None:
        self._data = data
        self._end = end
        self._path = path
        self.at = at

    @property
    def remaining(self) -> int:
        return self._end - self.at

    def integer(self, form: struct.Struct, field: str) -> int:
        end = self.at + form.size
        if end > self._end:
            raise self._malformed(field, f"needs {form.size} bytes, {self.remaining} remain")
        value: int = form.unpack_from(self._data, self.at)[0]
        self.at = end
        return value

    def version(self) -> int:
        version = self.integer(_I16, "version")
        if version < 0:
            self.at -= _I16.size
            raise self._malformed("version", f"{version} is negative")
        return version

    def string(self, field: str) -> str:
        start = self.at
        size = self.integer(_I16, field)
        end = self.at + size
        if not self.at <= end <= self._end:
            self.at = start
            raise self._bad_length(field, size, remaining=self._end - start - _I16.size)
        self.at = end
        try:
            return str(self._data[start + _I16.size : end], "utf-8")
        except UnicodeDecodeError as wrong:
            self.at = start
            raise self._malformed(field, f"is not UTF-8: {wrong.reason}") from None

    def length(self, field: str, *, smallest_entry: int, null_allowed: bool = False) -> int:
        """The length that starts an array or a byte string whose entries take at least so many bytes each."""
        start = self.at
        count = self.integer(_I32, field)
        if count == _NULL and null_allowed:
            return _NULL
        if not 0 <= count * smallest_entry <= self.remaining:
            self.at = start
            raise self._bad_length(field, count, remaining=self._end - start - _I32.size)
        return count

    def jobs(self, field: str, *, null_allowed: bool) -> Tasks:
        of_job, of_tasks = f"{field}.connector", f"{field}.tasks"
        tasks: set[TaskId] = set()
        for _ in range(self.length(field, smallest_entry=_SMALLEST_JOB, null_allowed=null_allowed)):
            job = self.string(of_job)
            tasks.update(map(_task, zip(repeat(job), self._indexes(of_tasks))))
        return frozenset(tasks)

    def _indexes(self, field: str) -> tuple[int, ...]:
        start = self.at
        count = self.length(field, smallest_entry=_I32.size)
        indexes: tuple[int, ...] = struct.unpack_from(f">{count}i", self._data, self.at)
        if indexes and min(indexes) < PLANNER_INDEX:
            self.at = start
            raise self._malformed(field, f"has task {min(indexes)}; the lowest is {PLANNER_INDEX}")
        self.at += count * _I32.size
        return indexes

    def _bad_length(self, field: str, length: int, *, remaining: int) -> MalformedEmbeddedError:
        what = f"length {length} is negative" if length < 0 else f"length {length} is too much for {remaining} bytes"
        return self._malformed(field, what)

    def _malformed(self, field: str, what: str) -> MalformedEmbeddedError:
        return MalformedEmbeddedError(f"{self._path}{field} at byte {self.at}: {what}")


def _read_eager(cursor: _Cursor, version: int) -> Assignment:
    head = _read_head(cursor, version)
    return replace(head, assigned=cursor.jobs("assigned", null_allowed=False))


def _read_incremental(cursor: _Cursor, version: int) -> Assignment:
    head = _read_head(cursor, version)
    return replace(
        head,
        assigned=cursor.jobs("assigned", null_allowed=True) if cursor.remaining else NO_TASKS,
        revoked=cursor.jobs("revoked", null_allowed=True) if cursor.remaining else NO_TASKS,
        delay_ms=cursor.integer(_I32, "delay") if cursor.remaining else 0,
    )


def _read_head(cursor: _Cursor, version: int) -> Assignment:
    return Assignment(
        version=version,
        error=cursor.integer(_I16, "error"),
        leader=cursor.string("leader"),
        leader_url=cursor.string("leader_url"),
        config_offset=ConfigOffset(cursor.integer(_I64, "config_offset")),
    )
