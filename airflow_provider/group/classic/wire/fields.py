"""Writes and reads fields of Kafka's old, non-flexible types, one after the other.

A STRING has a length of 16 bits, arrays and bytes have one of 32; all is big-endian. A length of -1 is null.

Most of what is written and read are tasks, a hundred thousand of them in a round of a large group. So the code for one
task is inlined, each job's name is encoded and decoded once, and bytes that were read recently are not read again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from airflow_provider.values.model import (
    NO_TASKS,
    PLANNER_INDEX,
    LocalProtocolError,
    MalformedEmbeddedError,
    TaskId,
    Tasks,
)
from airflow_provider.values.recent import Recent

I16: Final = struct.Struct(">h")
I32: Final = struct.Struct(">i")
I64: Final = struct.Struct(">q")
NULL: Final = -1

_MAX_STRING: Final = 2**15 - 1
_SMALLEST_JOB: Final = I16.size + I32.size
"""The least that an entry of an array of jobs takes, in bytes: an empty name and no tasks."""

_ONE_INDEX: Final = struct.Struct(">ii")
_ONE_TASK: Final = {index: _ONE_INDEX.pack(1, index) for index in range(PLANNER_INDEX, 1_000)}
"""The encoded arrays of a single task: where jobs are spread, a worker has one task of each."""

_MOST_NAMES: Final = 10_000
_LONGEST_NAME: Final = 250
"""In bytes. Longer names are not cached, so that a hostile peer can't fill the memory with them."""
_encoded: dict[str, bytes] = {}
_decoded: dict[bytes, str] = {}
"""Caches of job names, encoded with their lengths, decoded without. Each worker sends the same ones in each round."""
_job_of: Final = itemgetter(0)
READ: Final = Recent[bytes, tuple[Tasks, int]]()
"""Bytes from the beginning of an array on -> its tasks and size. A cache: most members own what they owned before."""


class Writer:
    """Collects encoded fields; each error names the field."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def done(self) -> bytes:
        """The bytes of all fields so far."""
        return b"".join(self._parts)

    def version(self, version: int) -> None:
        if version < 0:
            raise LocalProtocolError(f"version {version} is negative")
        self.integer(I16, version, "version")

    def integer(self, form: struct.Struct, value: int, field: str) -> None:
        try:
            self._parts.append(form.pack(value))
        except struct.error:
            raise LocalProtocolError(f"{field} {value!r} is not an integer of {form.size} bytes") from None

    def string(self, text: str, field: str) -> None:
        self._parts.append(_string(text, field))

    def nested(self, inner: Writer, field: str) -> None:
        """Append another writer's fields as a byte string."""
        encoded = inner.done()
        self.integer(I32, len(encoded), field)
        self._parts.append(encoded)

    def jobs(self, tasks: Tasks, field: str) -> None:
        """Append an array of jobs, sorted by job and index."""
        by_job = _grouped(tasks)
        self.integer(I32, len(by_job), field)
        put, name_of, array_of = self._parts.append, _encoded.get, _ONE_TASK.get
        for job, indexes in sorted(by_job.items(), key=_job_of):
            put(name_of(job) or _job_name(job, field))
            if isinstance(indexes, int):
                put(array_of(indexes) or _array((indexes,), job, field))
            else:
                put(_array(sorted(indexes), job, field))


def _grouped(tasks: Tasks) -> dict[str, int | list[int]]:
    """The indexes of each job: a number for a job with one task, as most are where jobs are spread, else a list."""
    by_job: dict[str, int | list[int]] = {}
    for job, index in tasks:
        if job not in by_job:
            by_job[job] = index
            continue
        others = by_job[job]
        if isinstance(others, int):
            by_job[job] = [others, index]
        else:
            others.append(index)
    return by_job


def _string(text: str, field: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError as wrong:
        raise LocalProtocolError(f"{field} {text!r} has no UTF-8 form: {wrong.reason}") from None
    if len(encoded) > _MAX_STRING:
        raise LocalProtocolError(f"{field} takes {len(encoded)} bytes, the format carries at most {_MAX_STRING}")
    return I16.pack(len(encoded)) + encoded


def _job_name(job: str, field: str) -> bytes:
    encoded = _string(job, f"{field}: job")
    if len(encoded) <= _LONGEST_NAME:
        _make_room(_encoded)
        _encoded[job] = encoded
    return encoded


def _make_room(names: dict[str, bytes] | dict[bytes, str]) -> None:
    if len(names) >= _MOST_NAMES:
        names.clear()


def _array(indexes: Sequence[int], job: str, field: str) -> bytes:
    """:param indexes: sorted, at least one"""
    if indexes[0] < PLANNER_INDEX:
        raise LocalProtocolError(f"{field} has task {indexes[0]} of {job!r}; the lowest is {PLANNER_INDEX}")
    try:
        return struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)
    except struct.error:
        raise LocalProtocolError(f"{field} has task {indexes[-1]} of {job!r}, more than 4 bytes hold") from None


class Cursor:
    """Reads fields from ``data[at:end]``.

    Every length is checked against what remains before anything is read or allocated, so time and memory are at most a
    small multiple of the input's size. Every error names the field and where it starts in ``data``.
    """

    __slots__ = ("_data", "_end", "_path", "at")

    def __init__(self, data: bytes, *, at: int, end: int, path: str = "") -> None:
        self._data = data
        self._end = end
        self._path = path
        self.at = at

    @classmethod
    def over(cls, data: bytes) -> Cursor:
        return cls(data, at=0, end=len(data))

    @property
    def remaining(self) -> int:
        """How many bytes have not been read yet."""
        return self._end - self.at

    def nested(self, size: int, path: str) -> Cursor:
        """A cursor over the next ``size`` bytes, which this one does not skip."""
        return Cursor(self._data, at=self.at, end=self.at + size, path=path)

    def integer(self, form: struct.Struct, field: str) -> int:
        end = self.at + form.size
        if end > self._end:
            raise self._malformed(field, f"needs {form.size} bytes, {self.remaining} remain")
        value: int = form.unpack_from(self._data, self.at)[0]
        self.at = end
        return value

    def version(self) -> int:
        version = self.integer(I16, "version")
        if version < 0:
            self.at -= I16.size
            raise self._malformed("version", f"{version} is negative")
        return version

    def string(self, field: str) -> str:
        start = self.at
        size = self.integer(I16, field)
        end = self.at + size
        if not self.at <= end <= self._end:
            self.at = start
            raise self._bad_length(field, size, remaining=self._end - start - I16.size)
        self.at = end
        try:
            return str(self._data[start + I16.size : end], "utf-8")
        except UnicodeDecodeError as wrong:
            self.at = start
            raise self._malformed(field, f"is not UTF-8: {wrong.reason}") from None

    def length(self, field: str, *, smallest_entry: int, null_allowed: bool = False) -> int:
        """Read the length of an array or a byte string.

        :param smallest_entry: the least that an entry takes, in bytes
        """
        start = self.at
        count = self.integer(I32, field)
        if count == NULL and null_allowed:
            return NULL
        if not 0 <= count * smallest_entry <= self.remaining:
            self.at = start
            raise self._bad_length(field, count, remaining=self._end - start - I32.size)
        return count

    def jobs(self, field: str, *, null_allowed: bool) -> Tasks:
        """Read an array of jobs, each with an array of tasks."""
        start = self.at
        count = self.length(field, smallest_entry=_SMALLEST_JOB, null_allowed=null_allowed)
        if count in (NULL, 0):
            return NO_TASKS
        rest = self._data[start : self._end]
        known = READ.get(rest)
        if known is not None:
            tasks, size = known
            self.at = start + size
            return tasks
        try:
            found, self.at = _jobs(self._data, self.at, self._end, count)
        except (_MalformedJobsError, struct.error):
            found = self._jobs_field_by_field(field, count)
        tasks = frozenset(found)
        READ.put(rest, (tasks, self.at - start), tasks, len(rest))
        return tasks

    def _jobs_field_by_field(self, field: str, count: int) -> list[TaskId]:
        """Read the jobs again, field by field, to name the field that is wrong."""
        tasks: list[TaskId] = []
        for _ in range(count):
            job = self.string(f"{field}.connector")
            tasks += [TaskId(job, index) for index in self._indexes(f"{field}.tasks")]
        return tasks

    def _indexes(self, field: str) -> tuple[int, ...]:
        start = self.at
        count = self.length(field, smallest_entry=I32.size)
        indexes: tuple[int, ...] = struct.unpack_from(f">{count}i", self._data, self.at)
        if indexes and min(indexes) < PLANNER_INDEX:
            self.at = start
            raise self._malformed(field, f"has task {min(indexes)}; the lowest is {PLANNER_INDEX}")
        self.at += count * I32.size
        return indexes

    def _bad_length(self, field: str, length: int, *, remaining: int) -> MalformedEmbeddedError:
        what = f"length {length} is negative" if length < 0 else f"length {length} is too much for {remaining} bytes"
        return self._malformed(field, what)

    def _malformed(self, field: str, what: str) -> MalformedEmbeddedError:
        return MalformedEmbeddedError(f"{self._path}{field} at byte {self.at}: {what}")


class _MalformedJobsError(Exception):
    """Something is wrong with an array of jobs; reading it again field by field tells what."""


def _jobs(data: bytes, at: int, end: int, count: int) -> tuple[list[TaskId], int]:
    """Read ``count`` jobs with their tasks, and where they end.

    :raises _MalformedJobsError, struct.error: for malformed bytes
    """
    short, integer, known, make = I16.unpack_from, I32.unpack_from, _decoded.get, tuple.__new__
    tasks: list[TaskId] = []
    for _ in range(count):
        (size,) = short(data, at)
        begin = at + 2
        counted = begin + size
        if size < 0 or counted + 4 > end:
            raise _MalformedJobsError
        job = known(data[begin:counted])
        if job is None:
            job = _text(data[begin:counted])
        (number,) = integer(data, counted)
        at = counted + 4 + 4 * number
        if number < 0 or at > end:
            raise _MalformedJobsError
        if number == 1:
            (index,) = integer(data, counted + 4)
            if index < PLANNER_INDEX:
                raise _MalformedJobsError
            tasks.append(make(TaskId, (job, index)))
        elif number:
            indexes = struct.unpack_from(f">{number}i", data, counted + 4)
            if min(indexes) < PLANNER_INDEX:
                raise _MalformedJobsError
            tasks += [make(TaskId, (job, index)) for index in indexes]
    return tasks, at


def _text(name: bytes) -> str:
    """:raises _MalformedJobsError: it is not UTF-8"""
    try:
        job = str(name, "utf-8")
    except UnicodeDecodeError:
        raise _MalformedJobsError from None
    if len(name) <= _LONGEST_NAME:
        _make_room(_decoded)
        _decoded[name] = job
    return job
