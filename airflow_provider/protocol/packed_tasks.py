"""Many tasks without an object for each."""

from __future__ import annotations

import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Final

from airflow_provider.protocol.model import (
    HIGHEST_INDEX,
    NO_TASKS,
    PLANNER_INDEX,
    LocalProtocolError,
    TaskId,
    Tasks,
)
from airflow_provider.protocol.recent import Recent

_LONGEST_NAME: Final = 2**15 - 1
"""Bytes. So many a text has in v0 to v2, and in the records that speak of the same jobs."""
_SIZE: Final = 2
_NUMBER: Final = 4
_ONE: Final = struct.pack("<i", 1)
_job_of, _index_of = itemgetter(0), itemgetter(1)
_task: Final = partial(tuple.__new__, TaskId)
"""From a pair, in half the time of the class's own ``_make``."""


@dataclass(frozen=True, slots=True)
class PackedTasks:
    """Tasks by job, in four vectors: as they lie in the bytes of a message, from which they are cut.

    Numbers are little-endian, and not checked: make one with :meth:`of` or :meth:`checked`.

    :param names: of the jobs, UTF-8, one behind the other
    :param sizes: uint16, how many bytes the name of each job has
    :param counts: int32, how many tasks each job has
    :param packed: int32, the indexes of the tasks, those of the first job first
    """

    names: bytes = b""
    sizes: bytes = b""
    counts: bytes = b""
    packed: bytes = b""

    @classmethod
    def of(cls, tasks: Iterable[TaskId]) -> PackedTasks:
        """The same tasks give the same value, in whatever order they come: by job, and by index.

        :raises LocalProtocolError: for a task that the wire can't carry
        """
        tasks = frozenset(tasks)
        if not tasks:
            return NOTHING
        known = PACKED.get(tasks)
        if known is None:
            known = cls(*_vectors(tasks))
            PACKED.put(tasks, known, tasks, known.size)
            UNPACKED.put(known, tasks, tasks, known.size)
        return known

    @classmethod
    def checked(cls, names: bytes, sizes: bytes, counts: bytes, packed: bytes) -> PackedTasks:
        """From what somebody else has written.

        :raises ValueError: these are no tasks; the message begins with the name of the vector that is wrong
        """
        found = cls(names, sizes, counts, packed)
        if UNPACKED.get(found) is not None:
            return found  # it was checked then
        lengths, of_each, indexes = found._lengths(), found._of_each(), found.indexes()
        if sum(lengths) != len(names):
            raise ValueError(f"sizes are of {sum(lengths)} bytes, names have {len(names)}")
        if len(names) > _LONGEST_NAME < max(lengths):
            raise ValueError(f"sizes has {max(lengths)}, a name has at most {_LONGEST_NAME} bytes")
        if len(of_each) != len(lengths):
            raise ValueError(f"counts has {len(of_each)} entries for {len(lengths)} jobs")
        if min(of_each, default=0) < 0:
            raise ValueError(f"counts has {min(of_each)}")
        if sum(of_each) != len(indexes):
            raise ValueError(f"counts is of {sum(of_each)} tasks, indexes has {len(indexes)}")
        if min(indexes, default=0) < PLANNER_INDEX:
            raise ValueError(f"indexes has {min(indexes)}; the lowest is {PLANNER_INDEX}")
        if not names.isascii():
            try:
                found.jobs()
            except UnicodeDecodeError as wrong:
                raise ValueError(f"names has one that is not UTF-8: {wrong.reason}") from None
        return found

    def __len__(self) -> int:
        """How many tasks."""
        return len(self.packed) // _NUMBER

    def jobs(self) -> list[str]:
        """The names."""
        ends = list(accumulate(self._lengths()))
        places = map(slice, [0, *ends], ends)
        if self.names.isascii():
            return list(map(str(self.names, "ascii").__getitem__, places))
        return [str(self.names[place], "utf-8") for place in places]

    def indexes(self) -> array[int]:
        """Of all tasks, those of the first job first."""
        return _numbers("i", self.packed)

    def by_job(self) -> Iterator[tuple[str, array[int]]]:
        """Each job with the indexes of its tasks."""
        counts, indexes = self._of_each(), self.indexes()
        for job, count, end in zip(self.jobs(), counts, accumulate(counts), strict=True):
            yield job, indexes[end - count : end]

    @property
    def size(self) -> int:
        """In bytes, of the four vectors."""
        return len(self.names) + len(self.sizes) + len(self.counts) + len(self.packed)

    def tasks(self) -> Tasks:
        """An object for each. The same set as before, if it was asked for, or packed, not long ago."""
        if not self.packed:
            return NO_TASKS
        tasks = UNPACKED.get(self)
        if tasks is None:
            tasks = frozenset(self.in_order())
            UNPACKED.put(self, tasks, tasks, self.size)
        return tasks

    def in_order(self) -> Iterator[TaskId]:
        """As :meth:`tasks`, in the order of the indexes."""
        jobs: Iterable[str] = self.jobs()
        if self.counts != _ONE * (len(self.counts) // _NUMBER):
            jobs = chain.from_iterable(map(repeat, jobs, self._of_each()))
        return map(_task, zip(jobs, self.indexes(), strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} tasks of {len(self.sizes) // _SIZE} jobs>"

    def _lengths(self) -> array[int]:
        return _numbers("H", self.sizes)

    def _of_each(self) -> array[int]:
        return _numbers("i", self.counts)


NOTHING: Final = PackedTasks()
PACKED: Final = Recent[Tasks, PackedTasks]()
UNPACKED: Final = Recent[PackedTasks, Tasks]()
"""What a leader has sent a worker comes back in the next round as what that owns, and is sent again in most rounds."""


def _vectors(tasks: Tasks) -> tuple[bytes, bytes, bytes, bytes]:
    """:raises LocalProtocolError: for a task that the wire can't carry"""
    # Two sorts, each by a part that is quick to compare: pairs take twice as long.
    jobs, indexes = zip(*sorted(sorted(tasks, key=_index_of), key=_job_of), strict=True)
    counts = Counter(jobs)
    try:
        packed = struct.pack(f"<{len(indexes)}i", *indexes)
    except struct.error:
        raise LocalProtocolError(f"{_beyond(tasks)}, more than four bytes hold") from None
    if min(indexes) < PLANNER_INDEX:
        raise LocalProtocolError(f"{_beyond(tasks)}; the lowest is {PLANNER_INDEX}")
    names, sizes = _encoded(tuple(counts))
    return names, sizes, struct.pack(f"<{len(counts)}i", *counts.values()), packed


def _numbers(code: str, data: bytes) -> array[int]:
    numbers = array(code, data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


@lru_cache(maxsize=16)
def _encoded(jobs: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Names and sizes. Where jobs are spread, all workers have tasks of the same ones.

    :raises LocalProtocolError: for a name that has no UTF-8 form, or too long a one
    """
    try:
        names = "".join(jobs).encode()
    except UnicodeEncodeError as wrong:
        raise LocalProtocolError(f"the name of a job has no UTF-8 form: {wrong.reason}") from None
    sizes = list(map(len, jobs if names.isascii() else map(str.encode, jobs)))
    if len(names) > _LONGEST_NAME < max(sizes):
        raise LocalProtocolError(f"the name of a job takes {max(sizes)} bytes, at most {_LONGEST_NAME} can be sent")
    return names, struct.pack(f"<{len(sizes)}H", *sizes)


def _beyond(tasks: Tasks) -> str:
    wrong = next(task for task in sorted(tasks) if not PLANNER_INDEX <= task.index <= HIGHEST_INDEX)
    return f"task {wrong.index} of job {wrong.job!r}"
