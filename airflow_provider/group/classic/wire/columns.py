"""A set of tasks in few bytes, for v4.

A set has three columns: the names of its jobs, how many tasks each has, and the indexes. A column is its length, twice
that as a varint, plus 1 if it is compressed, which is only done if that makes it shorter; then its bytes.

Names are sorted, and each is written as the number of bytes that it shares with the one before (0 to 30, in one byte),
and the rest. In the rest, a byte below 32, which a name hardly ever has, is written as 31 and the byte plus 32. So the
first byte of a name is known by its value, and nothing has to tell where a name ends.

Numbers are written in as many bits as the largest of them needs, behind a byte that tells how many. Of the number of
tasks, one less is written. Of an index, how many lie between it and the one before in its job: runs are zeros, and
zeros take no bits.

The same set gives the same bytes wherever zlib is the same; another zlib may make others, which are read as well.
What a few bytes can become is limited.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from operator import lt
from typing import Final, NamedTuple

from airflow_provider.values.model import LocalProtocolError
from airflow_provider.values.packed_tasks import LONGEST_NAME, PackedTasks
from airflow_provider.values.recent import Recent
from airflow_provider.values.varints import read_varint, varint

MOST: Final = 2**24
"""How many bytes a message may take when it is unpacked: as many as a record may have."""
_MORE_OF_A_TASK: Final = 12
"""A task counts as 16 bytes, so that a message has a million at most. Tasks in a row take no bytes, but each of them
becomes an object, so that a few bytes could keep a leader busy for long.
"""

_LONGEST_LENGTH: Final = 5
_LONGEST_SHARED: Final = 30
_ESCAPE: Final = 31
_RARE: Final = re.compile(rb"[\x00-\x1f]")
_ESCAPED: Final = re.compile(rb"\x1f(.?)", re.DOTALL)
_RESTS: Final = re.compile(rb"[\x00-\x1e]([^\x00-\x1e]*)")
_SMALL: Final = 2**16
_MOST_KEPT: Final = 2**20
"""In bytes: a longer column of names is not kept, nor longer names, whatever the length of their column. Otherwise a
hostile peer could fill the memory with them.
"""
_LONGEST_KEPT: Final = 250
"""In bytes: a longer name is not kept, for the same reason."""
_NO_MARKS: Final = bytes(range(_ESCAPE, 256))
_MARKS: Final = [bytes([shared]) for shared in range(_ESCAPE)]
_OF_A_JOB: Final = 6
"""The bytes of a job in a :class:`PackedTasks` apart from its name: an entry in ``sizes`` and one in ``counts``."""
_OF_A_TASK: Final = 4
_ONE: Final = struct.pack("<i", 1)
"""A job of one task in ``counts``."""
_BEFORE_ALL: Final = -2
"""The index before that of a planner: each job begins with it."""
_MOST_BITS: Final = 32
_FEW_BITS: Final = 10
"""Numbers of at most so many bits are looked up in a table."""
_OF_AN_ENTRY: Final = 500
"""About how much memory an entry of a cache takes besides its bytes."""

WRITTEN: Final = Recent[PackedTasks, bytes]()
READ: Final = Recent[bytes, PackedTasks]()
"""Caches, as those of :class:`PackedTasks`: what was sent comes back, and is compressed once."""


def takes(tasks: PackedTasks) -> int:
    """How many of a message's bytes a set counts for when it is unpacked."""
    return tasks.size + _MORE_OF_A_TASK * len(tasks)


def pack(tasks: PackedTasks) -> bytes:
    """Write a set that is not empty, sorted as :meth:`PackedTasks.of` does it.

    :raises LocalProtocolError: if it is not sorted
    """
    known = WRITTEN.get(tasks)
    if known is None:
        known = _names(tasks.names, tasks.sizes) + _counts_and_indexes(tasks)
        _keep(tasks, known)
    return known


def unpack(data: bytes, room: int) -> PackedTasks:
    """The inverse of :func:`pack`.

    :param room: how many bytes the result may take
    :raises ValueError: if it is malformed, or takes more
    """
    known = READ.get(data)
    if known is None:
        known = _unpack(data, room)
        _keep(known, data)
    if takes(known) > room:
        raise _too_large(room)
    return known


def _keep(tasks: PackedTasks, data: bytes) -> None:
    """What is longer than the set itself is not written again: a peer may fill the bytes up with nothing."""
    size = tasks.size + len(data) + _OF_AN_ENTRY
    if len(data) <= tasks.size:
        WRITTEN.put(tasks, data, (), size)
    READ.put(data, tasks, (), size)


def deflated(data: bytes, dictionary: bytes = b"") -> bytes:
    """Compress: raw deflate, without a header and a checksum.

    :param dictionary: what data often have
    """
    writer = zlib.compressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary)
    return writer.compress(data) + writer.flush()


def inflated(data: bytes, room: int, dictionary: bytes = b"") -> bytes:
    """The inverse of :func:`deflated`. It makes one byte more than there is room for, at most.

    :raises ValueError: if it is malformed, or takes more
    """
    reader = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=dictionary)
    try:
        whole = reader.decompress(data, room + 1)
    except zlib.error as wrong:
        raise ValueError(f"can't be decompressed: {wrong}") from None
    if len(whole) > room:
        raise _too_large(room)
    if not reader.eof or reader.unused_data:
        raise ValueError("has bytes behind its end" if reader.eof else "ends in the middle of what is compressed")
    return whole


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """The varint that begins at this byte, and where it ends.

    :raises ValueError: if it is cut off, or has more than five bytes
    """
    if (length := read_varint(data, at, _LONGEST_LENGTH)) is None:
        raise ValueError("has no length")
    return length


def _too_large(room: int) -> ValueError:
    return ValueError(f"takes more than {room} bytes when it is unpacked; a message may take {MOST}")


# ---- writing


def _names(names: bytes, sizes: bytes) -> bytes:
    """The column of names. Kept, because where jobs are spread many workers have tasks of the same ones.

    :raises LocalProtocolError: if they are not sorted
    """
    return (_kept_names if len(names) <= _MOST_KEPT else _written_names)(names, sizes)


def _written_names(names: bytes, sizes: bytes) -> bytes:
    lengths = struct.unpack(f"<{len(sizes) // 2}H", sizes)
    ends = list(accumulate(lengths))
    each = list(map(names.__getitem__, map(slice, [0, *ends], ends)))
    behind = _kept_behind if max(lengths) <= _LONGEST_KEPT else _behind
    return _column(_MARKS[0] + _escaped(each[0]) + b"".join(map(behind, each, each[1:])))


_kept_names: Final = lru_cache(maxsize=16)(_written_names)


def _behind(before: bytes, name: bytes) -> bytes:
    """A name behind another one."""
    if not before < name:
        raise LocalProtocolError("the jobs of a set of tasks are not sorted by name")
    common = min(len(before), len(name), _LONGEST_SHARED)
    differ = int.from_bytes(before[:common], "big") ^ int.from_bytes(name[:common], "big")
    shared = common - (differ.bit_length() + 7) // 8
    return _MARKS[shared] + _escaped(name[shared:])


_kept_behind: Final = lru_cache(maxsize=2**15)(_behind)
"""In a large group the same names follow each other in the sets of many workers."""


def _escaped(rest: bytes) -> bytes:
    return _RARE.sub(lambda rare: bytes([_ESCAPE, rare[0][0] + _ESCAPE + 1]), rest)


def _counts_and_indexes(tasks: PackedTasks) -> bytes:
    indexes = tasks.indexes().tolist()
    if len(tasks.sizes) // 2 == len(indexes) and _ONE * len(indexes) == tasks.counts:
        # Where jobs are spread: single numbers, which compress by nothing.
        numbers = _numbers([index - _BEFORE_ALL - 1 for index in indexes])
        return _COUNTS_OF_ONE + varint(2 * len(numbers)) + numbers
    counts = struct.unpack(f"<{len(tasks.counts) // 4}i", tasks.counts)
    column = _column(_numbers([count - 1 for count in counts]))
    before = [_BEFORE_ALL, *indexes[:-1]]
    for begin in accumulate(counts[:-1]):
        before[begin] = _BEFORE_ALL
    gaps = [index - last - 1 for index, last in zip(indexes, before, strict=True)]
    return column + _column(_numbers(gaps))


def _column(data: bytes) -> bytes:
    shorter = deflated(data)
    if len(shorter) < len(data):
        return varint(2 * len(shorter) + 1) + shorter
    return varint(2 * len(data)) + data


def _numbers(values: list[int]) -> bytes:
    """:raises LocalProtocolError: for a negative number: what it counts is not sorted"""
    if min(values, default=0) < 0:
        raise LocalProtocolError("the tasks of a job are not sorted, or there are none")
    bits = max(values, default=0).bit_length()
    if not bits:
        return b"\0"
    digits = "".join(map(_digits(bits).__getitem__, values) if bits <= _FEW_BITS else [f"{v:0{bits}b}" for v in values])
    size = -(-len(digits) // 8)
    return bytes([bits]) + int(digits.ljust(8 * size, "0"), 2).to_bytes(size, "big")


@lru_cache(maxsize=_FEW_BITS)
def _digits(bits: int) -> tuple[str, ...]:
    """All numbers of so many bits."""
    return tuple(f"{value:0{bits}b}" for value in range(2**bits))


_COUNTS_OF_ONE: Final = _column(_numbers([0]))


# ---- reading


class _Column(NamedTuple):
    """A column as it was sent."""

    data: bytes
    compressed: bool

    def whole(self, name: str) -> bytes:
        """:raises ValueError: naming the column, if it is malformed or too large"""
        try:
            return inflated(self.data, MOST) if self.compressed else self.data
        except ValueError as wrong:
            raise ValueError(f"{name} {wrong}") from None


def _unpack(data: bytes, room: int) -> PackedTasks:
    columns = _columns(data)
    names = _read_names(_next(columns, "names"))
    jobs = len(names.sizes) // 2
    counts = [fewer + 1 for fewer in _read_numbers(_next(columns, "counts"), jobs, "counts")]
    tasks = sum(counts)
    if len(names.joined) + jobs * _OF_A_JOB + tasks * (_OF_A_TASK + _MORE_OF_A_TASK) > room:
        raise _too_large(room)
    gaps = _read_numbers(_next(columns, "indexes"), tasks, "indexes")
    if next(columns, None) is not None:
        raise ValueError("has bytes behind its end")
    indexes = [gap - 1 for gap in gaps] if tasks == jobs else list(_indexes(counts, gaps))
    try:
        packed = struct.pack(f"<{tasks}i", *indexes)
    except struct.error:
        raise ValueError(f"indexes has {max(indexes)}, more than four bytes hold") from None
    make = PackedTasks if names.joined.isascii() else PackedTasks.checked
    return make(names.joined, names.sizes, struct.pack(f"<{jobs}i", *counts), packed)


def _columns(data: bytes) -> Iterator[_Column]:
    at = 0
    while at < len(data):
        length, at = read_length(data, at)
        end = at + length // 2
        if end > len(data):
            raise ValueError(f"length {length // 2} is too much for {len(data) - at} bytes")
        yield _Column(data[at:end], length % 2 == 1)
        at = end


def _next(columns: Iterator[_Column], name: str) -> _Column:
    try:
        return next(columns)
    except StopIteration:
        raise ValueError(f"{name} is missing") from None
    except ValueError as wrong:
        raise ValueError(f"{name}: {wrong}") from None


class _Names(NamedTuple):
    """Names as :class:`PackedTasks` has them."""

    joined: bytes
    sizes: bytes


def _read_names(column: _Column) -> _Names:
    """The same column comes from many workers where jobs are spread, and is then kept."""
    names = _small_names(column) if len(column.data) <= _SMALL else None
    return _make_names(column) if names is None else names


@lru_cache(maxsize=16)
def _small_names(column: _Column) -> _Names | None:
    """The names; None if they are too long to be kept."""
    names = _make_names(column)
    return names if len(names.joined) <= _MOST_KEPT else None


def _make_names(column: _Column) -> _Names:
    text = column.whole("names")
    marks = text.translate(None, _NO_MARKS)
    if len(text) + sum(marks) + (_OF_A_JOB - 1) * len(marks) > MOST:
        raise _too_large(MOST)
    if not text or text[0] > _LONGEST_SHARED:
        raise ValueError("names does not begin with a number of shared bytes")
    rests = _RESTS.findall(text)
    if _ESCAPE in text:
        rests = [_ESCAPED.sub(_unescaped, rest) for rest in rests]
    name = b""
    names = [name := name[:shared] + rest for shared, rest in zip(marks, rests, strict=True)]
    lengths = list(map(len, names))
    if sum(lengths) != sum(marks) + sum(map(len, rests)):
        raise ValueError("names has one that shares more with the one before than that has")
    if not all(map(lt, names, names[1:])):
        raise ValueError("names are not sorted")
    if max(lengths) > LONGEST_NAME:
        raise ValueError(f"names has one of {max(lengths)} bytes, a name has at most {LONGEST_NAME}")
    return _Names(b"".join(names), struct.pack(f"<{len(names)}H", *lengths))


def _unescaped(escaped: re.Match[bytes]) -> bytes:
    byte = escaped[1]
    if not b" " <= byte <= b"?":
        raise ValueError("names has an escape of nothing")
    return bytes([byte[0] - _ESCAPE - 1])


def _indexes(counts: list[int], gaps: list[int]) -> Iterator[int]:
    at = 0
    for count in counts:
        index = _BEFORE_ALL
        for gap in gaps[at : at + count]:
            index += gap + 1
            yield index
        at += count


def _read_numbers(column: _Column, count: int, name: str) -> list[int]:
    """:param count: how many there are"""
    whole = column.whole(name)
    if not whole:
        raise ValueError(f"{name} is empty")
    bits, size = whole[0], -(-count * whole[0] // 8)
    if bits > _MOST_BITS:
        raise ValueError(f"{name} can't have numbers of {bits} bits")
    if len(whole) != 1 + size:
        raise ValueError(f"{name} has {len(whole) - 1} bytes, {count} numbers of {bits} bits take {size}")
    if not bits:
        return [0] * count
    digits = bin(1 << 8 * size | int.from_bytes(whole[1:], "big"))[3:]
    each = [digits[at : at + bits] for at in range(0, count * bits, bits)]
    return list(map(_values(bits).__getitem__, each)) if bits <= _FEW_BITS else [int(value, 2) for value in each]


@lru_cache(maxsize=_FEW_BITS)
def _values(bits: int) -> dict[str, int]:
    """The inverse of :func:`_digits`."""
    return {digits: value for value, digits in enumerate(_digits(bits))}
