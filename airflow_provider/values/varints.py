"""Unsigned varints: whole numbers from 0 on, seven bits in a byte, the lowest first, as Kafka and Protocol Buffers
write them.
"""

from __future__ import annotations


def varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def read_varint(data: bytes, at: int, longest: int) -> tuple[int, int] | None:
    """The number that begins at this byte, and where it ends; None: it does not end.

    :param longest: how many bytes it may have
    """
    value = 0
    for place, byte in enumerate(data[at : at + longest]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    return None
