"""What is inside the bytes of versions 3 and 4, and changes with all others like it: see module ``normal``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from airflow_provider.group.classic.wire import LEARNING, v3, v4
from airflow_provider.values.model import Epoch

CODECS = {protocol.version.to_bytes(2, "big"): codec for protocol, codec in LEARNING.items()}
"""By the bytes with which a message begins."""
_METADATA = frozenset({"protocols", "metadata"})
_ASSIGNMENT = frozenset({"assignment", "assignments"})


@cache
def epoch_in(name: str, data: bytes) -> int:
    """The epoch in the bytes; 0 if there is none.

    :param name: of the field with the bytes
    """
    codec = CODECS.get(data[:2])
    if codec is None or name not in _METADATA | _ASSIGNMENT:
        return 0
    value = codec.decode_metadata(data) if name in _METADATA else codec.decode_assignment(data)
    return value.epoch or 0


@cache
def lowered(name: str, data: bytes, down: int) -> bytes:
    """The bytes with the epoch lowered by ``down``."""
    epoch = epoch_in(name, data)
    if not epoch:
        return data
    codec = CODECS[data[:2]]
    if name in _METADATA:
        return codec.encode_metadata(replace(codec.decode_metadata(data), epoch=Epoch(epoch - down)))
    return codec.encode_assignment(replace(codec.decode_assignment(data), epoch=Epoch(epoch - down)))


@cache
def opened(name: str, data: bytes) -> bytes:
    """The same in bytes in which a member id can be seen: an assignment of version 4 in the form of version 3."""
    if name in _ASSIGNMENT and CODECS.get(data[:2]) is v4:
        return v3.encode_assignment(v4.decode_assignment(data))
    return data


@cache
def closed(name: str, data: bytes) -> bytes:
    """The inverse of :func:`opened`. The form of version 3 has the number of version 4, too."""
    if name in _ASSIGNMENT and CODECS.get(data[:2]) is v4:
        return v4.encode_assignment(v3.decode_assignment(data))
    return data
