"""Many tasks in a compact form, without an object for each."""

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

from airflow_provider.values.model import HIGHEST_INDEX, NO_TASKS, PLANNER_INDEX, LocalProtocolError, TaskId, Tasks
from airflow_provider.values.recent import Recent

LONGEST_NAME: Final = 2**15 - 1
"""In bytes: the most that a text has in v0 to v2, and in the records of the same jobs."""
_SIZE: Final = 2
_NUMBER: Final = 4
_MOST_JOBS_KEPT: Final = 2**15
_ONE: Final = struct.pack("<i", 1)
_job_of, _index_of = itemgetter(0), itemgetter(1)
task_of: Final = partial(tuple.__new__, TaskId)
"""Makes a task from a pair, in half the time of the class's own ``_make``."""


@dataclass(frozen=True, slots=True)
class PackedTasks:
    """Tasks by job, in four vectors of bytes: the same bytes that a v3 message has.

    Numbers are little-endian. The constructor checks nothing: use :meth:`of` or :meth:`checked`.

    :param names: the names of the jobs in UTF-8, without separators
    :param sizes: the length of each name in bytes, as uint16
    :param counts: the number of each job's tasks, as int32
    :param packed: the indexes of all tasks, as int32, those of the first job first
    """

    names: bytes = b""
    sizes: bytes = b""
    counts: bytes = b""
    packed: bytes = b""

    @classmethod
    def of(cls, tasks: Iterable[TaskId]) -> PackedTasks:
        """Pack tasks, sorted by job and index: equal sets give equal values.

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
        """Tasks from vectors that a peer has sent.

        :raises ValueError: if they don't make sense; the message begins with the name of the vector that is wrong
        """
        found = cls(names, sizes, counts, packed)
        if UNPACKED.get(found) is not None:
            return found  # checked when it was made
        lengths, of_each, indexes = found._lengths(), found._of_each(), found.indexes()
        if sum(lengths) != len(names):
            raise ValueError(f"sizes add up to {sum(lengths)} bytes, names have {len(names)}")
        if len(names) > LONGEST_NAME < max(lengths):
            raise ValueError(f"sizes has {max(lengths)}, a name has at most {LONGEST_NAME} bytes")
        if len(of_each) != len(lengths):
            raise ValueError(f"counts has {len(of_each)} entries for {len(lengths)} jobs")
        if min(of_each, default=0) < 0:
            raise ValueError(f"counts has {min(of_each)}")
        if sum(of_each) != len(indexes):
            raise ValueError(f"counts add up to {sum(of_each)} tasks, indexes has {len(indexes)}")
        if min(indexes, default=0) < PLANNER_INDEX:
            raise ValueError(f"indexes has {min(indexes)}; the lowest is {PLANNER_INDEX}")
        if not names.isascii():
            try:
                found.jobs()
            except UnicodeDecodeError as wrong:
                raise ValueError(f"names has one that is not UTF-8: {wrong.reason}") from None
        return found

    def __len__(self) -> int:
        """The number of tasks."""
        return len(self.packed) // _NUMBER

    def jobs(self) -> list[str]:
        ends = list(accumulate(self._lengths()))
        places = map(slice, [0, *ends], ends)
        if self.names.isascii():
            return list(map(str(self.names, "ascii").__getitem__, places))
        return [str(self.names[place], "utf-8") for place in places]

    def indexes(self) -> array[int]:
        """The indexes of all tasks, those of the first job first."""
        return _numbers("i", self.packed)

    @property
    def size(self) -> int:
        """The size of the four vectors, in bytes."""
        return len(self.names) + len(self.sizes) + len(self.counts) + len(self.packed)

    def tasks(self) -> Tasks:
        """Unpack the tasks. Returns the same set as before if it was unpacked, or packed, recently."""
        if not self.packed:
            return NO_TASKS
        tasks = UNPACKED.get(self)
        if tasks is None:
            tasks = frozenset(self.in_order())
            UNPACKED.put(self, tasks, tasks, self.size)
        return tasks

    def in_order(self) -> Iterator[TaskId]:
        """Unpack the tasks, in the order of their indexes in ``packed``."""
        jobs: Iterable[str] = self.jobs()
        if self.counts != _ONE * (len(self.counts) // _NUMBER):
            jobs = chain.from_iterable(map(repeat, jobs, self._of_each()))
        return map(task_of, zip(jobs, self.indexes(), strict=True))

    def __repr__(self) -> str:
        return f"<{len(self)} tasks of {len(self.sizes) // _SIZE} jobs>"

    def _lengths(self) -> array[int]:
        return _numbers("H", self.sizes)

    def _of_each(self) -> array[int]:
        return _numbers("i", self.counts)


NOTHING: Final = PackedTasks()
PACKED: Final = Recent[Tasks, PackedTasks]()
UNPACKED: Final = Recent[PackedTasks, Tasks]()
"""Caches: what a leader has sent a worker comes back in the next round as what it owns, and is mostly sent again."""


def _vectors(tasks: Tasks) -> tuple[bytes, bytes, bytes, bytes]:
    """:raises LocalProtocolError: for a task that the wire can't carry"""
    # Two sorts by one element each take half the time of one sort by pairs.
    jobs, indexes = zip(*sorted(sorted(tasks, key=_index_of), key=_job_of), strict=True)
    counts = Counter(jobs)
    try:
        packed = struct.pack(f"<{len(indexes)}i", *indexes)
    except struct.error:
        raise LocalProtocolError(f"{_out_of_range(tasks)}, more than four bytes hold") from None
    if min(indexes) < PLANNER_INDEX:
        raise LocalProtocolError(f"{_out_of_range(tasks)}; the lowest is {PLANNER_INDEX}")
    names, sizes = _encoded(tuple(counts))
    return names, sizes, struct.pack(f"<{len(counts)}i", *counts.values()), packed


def _numbers(code: str, data: bytes) -> array[int]:
    numbers = array(code, data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _encoded(jobs: tuple[str, ...]) -> tuple[bytes, bytes]:
    """Names and sizes of jobs. Kept, because where jobs are spread all workers have tasks of the same ones. A peer may
    have sent very many, which are not kept.

    :raises LocalProtocolError: for a name that has no UTF-8 form, or is too long
    """
    return (_kept_encoded if len(jobs) <= _MOST_JOBS_KEPT else _encode)(jobs)


def _encode(jobs: tuple[str, ...]) -> tuple[bytes, bytes]:
    try:
        names = "".join(jobs).encode()
    except UnicodeEncodeError as wrong:
        raise LocalProtocolError(f"the name of a job has no UTF-8 form: {wrong.reason}") from None
    sizes = list(map(len, jobs if names.isascii() else map(str.encode, jobs)))
    if len(names) > LONGEST_NAME < max(sizes):
        raise LocalProtocolError(f"the name of a job takes {max(sizes)} bytes, at most {LONGEST_NAME} can be sent")
    return names, struct.pack(f"<{len(sizes)}H", *sizes)


_kept_encoded: Final = lru_cache(maxsize=16)(_encode)


def _out_of_range(tasks: Tasks) -> str:
    wrong = next(task for task in sorted(tasks) if not PLANNER_INDEX <= task.index <= HIGHEST_INDEX)
    return f"task {wrong.index} of job {wrong.job!r}"
