"""Writes Kafka's primitive types, one after the other."""

from __future__ import annotations

import struct
from typing import Final

from airflow_provider.group.declarative.protocol.wire.errors import UnwritableMessageError

_INT16: Final = struct.Struct(">h")


class Writer:
    """Collects bytes.

    The methods for integers raise UnwritableMessageError if a value does not fit.
    """

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def done(self) -> bytes:
        """All bytes that were written."""
        return bytes(self._bytes)

    def int16(self, value: int) -> None:
        self.integer(_INT16, value)

    def integer(self, form: struct.Struct, value: int) -> None:
        """Write an integer in this form."""
        try:
            self._bytes += form.pack(value)
        except struct.error:
            raise UnwritableMessageError(f"an integer of {form.size} bytes", f"found {value!r}") from None

    def unsigned_varint(self, value: int) -> None:
        """Write a value as :meth:`Reader.unsigned_varint` reads it.

        :param value: 0 to 2**31 - 1; not checked
        """
        while value > 0x7F:
            self._bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self._bytes.append(value)

    def put(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._bytes += data
