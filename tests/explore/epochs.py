"""Epochs inside the bytes of version 3, which are lowered with all others: see module ``normal``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from airflow_provider.group.classic.wire import v3
from airflow_provider.group.classic.wire.extensible import VERSION
from airflow_provider.values.model import Epoch

_VERSION = VERSION.to_bytes(2, "big")
_METADATA = frozenset({"protocols", "metadata"})
_ASSIGNMENT = frozenset({"assignment", "assignments"})


@cache
def epoch_in(name: str, data: bytes) -> int:
    """The epoch in the bytes; 0 if there is none.

    :param name: of the field with the bytes
    """
    if not data.startswith(_VERSION) or name not in _METADATA | _ASSIGNMENT:
        return 0
    value = v3.decode_metadata(data) if name in _METADATA else v3.decode_assignment(data)
    return value.epoch or 0


@cache
def lowered(name: str, data: bytes, down: int) -> bytes:
    """The bytes with the epoch lowered by ``down``."""
    epoch = epoch_in(name, data)
    if not epoch:
        return data
    if name in _METADATA:
        return v3.encode_metadata(replace(v3.decode_metadata(data), epoch=Epoch(epoch - down)))
    return v3.encode_assignment(replace(v3.decode_assignment(data), epoch=Epoch(epoch - down)))
