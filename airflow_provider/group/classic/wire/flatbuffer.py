"""Flatbuffers, as far as the embedded protocol uses them: tables of numbers, texts, vectors, and other tables.

All is little-endian. An offset says how far ahead something lies, counted from the offset's own place. A table begins
with the distance back to its vtable. The vtable has the sizes of both and, for each field in the order of the schema,
where in the table it lies (0: absent). Entries beyond the fields that we know come from a later schema. See
"FlatBuffers Internals" in Google's documentation.

Google's runtime for Python checks nothing of what it reads, so each offset has to be followed and checked here anyway.
It is also slow: apart from the tasks in a message, it takes 110 µs to write one and 40 µs to read one (here 6 and 7),
and the leader of a thousand workers does that a thousand times a round. The tests compare this module with the
accessors that Google's compiler generates from the schema.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from airflow_provider.values.model import LocalProtocolError, MalformedEmbeddedError

BOOL: Final = struct.Struct("<?")
I16: Final = struct.Struct("<h")
I32: Final = struct.Struct("<i")
I64: Final = struct.Struct("<q")
F64: Final = struct.Struct("<d")
_U32: Final = struct.Struct("<I")
_VTABLE: Final = struct.Struct("<HH")
"""The beginning of a vtable: its own size and the table's, in bytes."""
_OFFSET: Final = _U32.size
_LONGEST_TEXT: Final = 2**15 - 1
"""In bytes: the most that a text has in v0 to v2, and in the records with the same names."""


def slots(*names: str) -> Mapping[str, int]:
    """Number the fields of a table, given in the order of the schema."""
    return {name: slot for slot, name in enumerate(names)}


class Table:
    """Reads the fields of one table. Nothing is read or allocated before it is known to lie within the bytes.

    So time and memory are at most a small multiple of the bytes' length, for each table that is read. Every error names
    the field and the byte of the message.
    """

    __slots__ = ("_at", "_data", "_fields", "_offsets", "_path", "_size")

    def __init__(self, data: bytes, at: int, fields: Mapping[str, int], path: str) -> None:
        """
        :param at: where the table begins
        :param fields: those that we know, see :func:`slots`
        :param path: the prefix of field names in errors
        """
        self._data, self._at, self._fields, self._path = data, at, fields, path
        last = len(data) - _OFFSET
        if not 0 <= at <= last:
            raise self._malformed("table", at, f"lies outside of {len(data)} bytes")
        vtable = at - I32.unpack_from(data, at)[0]
        if not 0 <= vtable <= last:
            raise self._malformed("vtable", vtable, f"lies outside of {len(data)} bytes")
        of_vtable, self._size = _VTABLE.unpack_from(data, vtable)
        if of_vtable < _VTABLE.size or of_vtable % 2 or vtable + of_vtable > len(data):
            raise self._malformed("vtable", vtable, f"can't have {of_vtable} bytes")
        if self._size < I32.size or at + self._size > len(data):
            raise self._malformed("table", at, f"can't have {self._size} bytes")
        known = min((of_vtable - _VTABLE.size) // 2, len(fields))
        self._offsets: tuple[int, ...] = struct.unpack_from(f"<{known}H", data, vtable + _VTABLE.size)

    @classmethod
    def root(cls, data: bytes, at: int, fields: Mapping[str, int]) -> Table:
        """The table of the flatbuffer that begins at byte ``at``."""
        if at + _OFFSET > len(data):
            what = f"needs {_OFFSET} bytes, {max(len(data) - at, 0)} remain"
            raise MalformedEmbeddedError(f"flatbuffer at byte {at}: {what}")
        return cls(data, at + _U32.unpack_from(data, at)[0], fields, "")

    def number(self, field: str, form: struct.Struct, default: float | None, least: float = -math.inf) -> Any:
        """Read a number, of the type that its form has; the default if it is absent.

        :param least: a lower value is malformed
        """
        at = self._position(field, form.size)
        if at is None:
            return default
        value = form.unpack_from(self._data, at)[0]
        if not least <= value < math.inf:
            raise self._malformed(field, at, f"{value} is not a number from {least} on")
        return value

    def truth(self, field: str) -> bool:
        """Read a bool; False if it is absent."""
        at = self._position(field, BOOL.size)
        return at is not None and self._data[at] != 0

    def text(self, field: str) -> str | None:
        """Read a text; None if it is absent."""
        at = self._target(field)
        if at is None:
            return None
        size = self._count(field, at, 1)
        if size > _LONGEST_TEXT:
            raise self._malformed(field, at, f"takes {size} bytes, a text has at most {_LONGEST_TEXT}")
        try:
            return str(self._data[at + _OFFSET : at + _OFFSET + size], "utf-8")
        except UnicodeDecodeError as wrong:
            raise self._malformed(field, at, f"is not UTF-8: {wrong.reason}") from None

    def table(self, field: str, fields: Mapping[str, int]) -> Table | None:
        """Read another table; None if it is absent."""
        at = self._target(field)
        return None if at is None else Table(self._data, at, fields, f"{self._path}{field}.")

    def packed(self, field: str, size: int) -> bytes:
        """Read the bytes of a vector or a text; empty if it is absent.

        :param size: of an entry, in bytes
        """
        at = self._target(field)
        if at is None:
            return b""
        begin = at + _OFFSET
        return self._data[begin : begin + self._count(field, at, size) * size]

    def malformed(self, field: str, what: str) -> MalformedEmbeddedError:
        """The error for a field that could be read, but whose value is wrong."""
        return self._malformed(field, self._target(field) or self._at, what)

    def _position(self, field: str, size: int) -> int | None:
        """Where a field of so many bytes lies; None: it is absent."""
        slot = self._fields[field]
        offset = self._offsets[slot] if slot < len(self._offsets) else 0
        if not offset:
            return None
        if offset < I32.size or offset + size > self._size:
            raise self._malformed(field, self._at, f"can't be {offset} bytes into a table of {self._size}")
        return self._at + offset

    def _target(self, field: str) -> int | None:
        """Where the value lies to which the field is an offset; None: the field is absent."""
        position = self._position(field, _OFFSET)
        return None if position is None else position + int(_U32.unpack_from(self._data, position)[0])

    def _count(self, field: str, at: int, size: int) -> int:
        """The length of the vector or text at ``at``.

        :param size: of an entry, in bytes
        """
        if at + _OFFSET > len(self._data):
            raise self._malformed(field, at, f"lies outside of {len(self._data)} bytes")
        count = int(_U32.unpack_from(self._data, at)[0])
        remain = len(self._data) - at - _OFFSET
        if count * size > remain:
            raise self._malformed(field, at, f"length {count} is too much for {remain} bytes")
        return count

    def _malformed(self, field: str, at: int, what: str) -> MalformedEmbeddedError:
        return MalformedEmbeddedError(f"{self._path}{field} at byte {at}: {what}")


class Number(NamedTuple):
    """A field whose value lies in the table itself."""

    form: struct.Struct
    value: float


class Piece(NamedTuple):
    """Bytes to which a field is an offset. They may lie anywhere, as all offsets inside of them stay inside.

    :param entry: the byte at which the offset points
    :param alignment: the piece has to begin at a multiple of so many bytes
    """

    data: bytes
    entry: int = 0
    alignment: int = 4


def text(value: str, field: str) -> Piece:
    """Encode a text.

    :raises LocalProtocolError: if it takes more than 32,767 bytes, or has no UTF-8 form
    """
    try:
        encoded = value.encode()
    except UnicodeEncodeError as wrong:
        raise LocalProtocolError(f"{field} {value!r} has no UTF-8 form: {wrong.reason}") from None
    if len(encoded) > _LONGEST_TEXT:
        raise LocalProtocolError(f"{field} takes {len(encoded)} bytes, the format carries at most {_LONGEST_TEXT}")
    return string(encoded)


def string(data: bytes) -> Piece:
    """A text, given as UTF-8. It ends with a zero byte that its length does not count."""
    return Piece(_U32.pack(len(data)) + data + bytes(4 - len(data) % 4))


def packed(data: bytes, size: int) -> Piece:
    """A vector, given as the bytes of its entries.

    :param size: of an entry, in bytes; the first entry lies at a multiple of that, behind the vector's length
    """
    count = _U32.pack(len(data) // size)
    return Piece(bytes(4) + count + data, 4, 8) if size == 8 else Piece(count + data + bytes(-len(data) % 4))


def table(fields: Sequence[Number | Piece | None]) -> Piece:
    """A table together with all that its fields point to.

    :param fields: in the order of the schema; None: absent
    :raises struct.error: for a number that its form can't hold
    """
    form, head, places, entry, alignment = _layout(
        tuple([field and (field.form if isinstance(field, Number) else _U32) for field in fields])
    )
    values: list[float] = []
    parts: list[bytes] = [b""]
    end = form.size
    for slot, position in places:
        field = fields[slot]
        if isinstance(field, Number):
            values.append(field.value)
        elif field is not None:
            data, begin, of_piece = field
            if gap := -end % of_piece:
                parts.append(bytes(gap))
                end += gap
            if of_piece > alignment:
                alignment = of_piece
            parts.append(data)
            values.append(end + begin - position)
            end += len(data)
    parts[0] = form.pack(*head, *values)
    parts.append(bytes(-end % 4))
    return Piece(b"".join(parts), entry, alignment)


def finished(root: Piece) -> bytes:
    """The whole flatbuffer."""
    return struct.pack(f"<I{root.alignment - _OFFSET}x", root.alignment + root.entry) + root.data


class _Layout(NamedTuple):
    """How a table is laid out behind its vtable, given which of its fields are present.

    :param form: of vtable and table together
    :param head: what is the same in each such table: the vtable, and the distance back to it
    :param places: the slots in the order in which they are written, each with its byte from the vtable's beginning on
    :param entry: the byte at which the table begins
    """

    form: struct.Struct
    head: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    entry: int
    alignment: int


@lru_cache(maxsize=256)
def _layout(forms: tuple[struct.Struct | None, ...]) -> _Layout:
    """Put the widest fields first, so that each lies at a multiple of its size without gaps.

    :param forms: of the fields; None: absent
    """
    while forms and forms[-1] is None:
        forms = forms[:-1]
    present = {slot: form for slot, form in enumerate(forms) if form is not None}
    order = sorted(present, key=lambda slot: -present[slot].size)
    alignment = 8 if order and present[order[0]].size == 8 else 4
    of_vtable = _VTABLE.size + 2 * len(forms)
    entry = of_vtable + -(of_vtable + I32.size) % alignment
    places: dict[int, int] = {}
    at = entry + I32.size
    for slot in order:
        places[slot] = at
        at += present[slot].size
    offsets = [places[slot] - entry if slot in places else 0 for slot in range(len(forms))]
    in_table = "".join(present[slot].format.removeprefix("<") for slot in order)
    return _Layout(
        form=struct.Struct(f"<{2 + len(forms)}H{entry - of_vtable}xi{in_table}"),
        head=(of_vtable, at - entry, *offsets, entry),
        places=tuple(places.items()),
        entry=entry,
        alignment=alignment,
    )
