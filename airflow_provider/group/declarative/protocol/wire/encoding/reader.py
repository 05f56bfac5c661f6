"""Reads Kafka's primitive types from bytes, one after the other.

Every length is compared with the number of remaining bytes before anything is read or allocated. So time and memory
stay within a small multiple of the input's size, whatever lengths it contains.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError

_INT16: Final = struct.Struct(">h")
_LARGEST: Final = 2**31 - 1
_LAST_SHIFT: Final = 28
"""The shift of the fifth byte of an unsigned varint, the last one that 32 bits can need."""


class Reader:
    """Reads ``data`` from its beginning. ``at`` is the offset of the next byte.

    All methods that read raise MalformedMessageError if the bytes are not as expected.
    """

    __slots__ = ("_data", "_end", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end = len(data)
        self.at = 0

    @property
    def remaining(self) -> int:
        """The number of bytes that were not read yet."""
        return self._end - self.at

    def int16(self) -> int:
        return self.integer(_INT16)

    def integer(self, form: struct.Struct) -> int:
        """Read an integer of this form."""
        size = form.size
        if size > self._end - self.at:
            raise self._short_of(size)
        value: int = form.unpack_from(self._data, self.at)[0]
        self.at += size
        return value

    def unsigned_varint(self) -> int:
        """Read seven bits from each byte, the lowest first; the highest bit is set if there are more bytes (Kafka's
        ``ByteUtils``).

        It is a length or a tag, so it must fit into a Java int.
        """
        start, shift, value = self.at, 0, 0
        while True:
            if self.at == self._end:
                self.at = start
                raise self.wrong("an unsigned varint", f"the bytes end after {self._end - start} of it")
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _LAST_SHIFT:
                self.at = start
                raise self.wrong("an unsigned varint of at most 5 bytes", "this one goes on")
        if value > _LARGEST:
            self.at = start
            raise self.wrong(f"an unsigned varint up to {_LARGEST}", f"found {value}")
        return value

    def take(self, size: int) -> bytes:
        """Read this number of bytes."""
        if size > self._end - self.at:
            raise self._short_of(size)
        start = self.at
        self.at = start + size
        return self._data[start : self.at]

    def next_is(self, byte: int) -> bool:
        """Whether the next byte is this one. It is not read."""
        return self.at < self._end and self._data[self.at] == byte

    def one_of(self, known: Collection[int]) -> int:
        """Read an int16 that must be one of these."""
        start = self.at
        found = self.int16()
        if found not in known:
            numbers = " or ".join(f"{number:d}" for number in known)  # "d": Python 3.10 would name an enum's
            raise MalformedMessageError(start, numbers, f"found {found}")
        return found

    def end(self) -> None:
        """Check that nothing follows."""
        if self.at != self._end:
            found = "a byte remains" if self.remaining == 1 else f"{self.remaining} bytes remain"
            raise self.wrong("the end", found)

    def wrong(self, expected: str, found: str) -> MalformedMessageError:
        """An error at the present offset."""
        return MalformedMessageError(self.at, expected, found)

    def _short_of(self, size: int) -> MalformedMessageError:
        return self.wrong(f"{size} bytes" if size > 1 else "a byte", f"{self.remaining} remain")
