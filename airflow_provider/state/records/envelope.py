"""The value of a record as bytes: a JSON object with the version of its schema in ``"v"``.

Readers ignore unknown fields, so a schema may gain fields without a new version. A higher version means that the
meaning of a field has changed: such a record can't be read here, and the reader logs that. Versions count for all kinds
of records together. Each kind is written in the lowest one that says what it means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from reprlib import repr as short
from typing import Any, Final, TypeVar

import msgspec

from airflow_provider.values.model import LARGEST_NUMBER

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
PACKED_VERSION: Final = 2
"""Of rounds whose tasks are in a table (:mod:`~airflow_provider.state.records.round_bytes`)."""
NEWEST_VERSION: Final = PACKED_VERSION
"""The highest one that is read here. A worker says so in its record."""
LARGEST_VALUE: Final = 16 * 1024 * 1024
"""The largest value in bytes, before compression, that is written or parsed. A group record has that size with some
hundred thousand tasks, or with some millions if it is packed. Brokers only limit the compressed size, and a kilobyte
may become a megabyte.
"""
LONGEST_TEXT: Final = 8_191
"""The longest name, url, key or message in characters: what the wire can certainly carry."""
_LARGEST: Final = 2**63 - 1
# Other threads write, hash and copy what one thread has read, perhaps with less stack left.
DEEPEST: Final = 100
"""The most levels of objects and lists in values that users give: configs, results."""
_DEEPEST_RECORD: Final = DEEPEST + 10

TEXT: Final = msgspec.Meta(max_length=LONGEST_TEXT)
COUNT: Final = msgspec.Meta(ge=0, le=LARGEST_NUMBER)
"""Annotations for fields of records; ``msgspec.convert`` checks them when it reads JSON."""


class UnreadableRecordError(ValueError):
    """A key or value that is not a record of this package, or one of a newer schema."""


def encode(data: Mapping[str, Any]) -> bytes:
    """Encode the JSON form of a record.

    :raises ValueError: for what JSON can't carry
    """
    return dump({"v": SCHEMA_VERSION, **data})


def encode_step(data: dict[str, Any], *more: Mapping[str, str | int], free: tuple[str, ...]) -> tuple[bytes, ...]:
    """Encode as :func:`encode`, in a fifth of the time by ``msgspec``: for records that are written often for each
    task.

    :param data: the JSON form; its texts, whole numbers and field names are this package's own
    :param more: further fields of each record
    :param free: the fields with values of other kinds, which ``json`` writes as everywhere else
    :returns: a value for each of ``more``
    :raises ValueError: for what JSON can't carry
    """
    given = {name: msgspec.Raw(dump(data[name])) for name in free if data.get(name) is not None}
    common = {"v": SCHEMA_VERSION, **data, **given}
    return tuple([msgspec.json.encode({**common, **each}, order="sorted") for each in more])


def encode_packed(data: Mapping[str, Any]) -> bytes:
    """Encode the JSON form of a packed round, by ``msgspec`` because it is large. It has no values of users, in which
    floats would have to be written as ``json`` does.

    :raises ValueError: for what JSON can't carry
    """
    return msgspec.json.encode({"v": PACKED_VERSION, **data}, order="sorted")


def decode(value: bytes) -> dict[str, Any]:
    """The inverse of :func:`encode`.

    :raises UnreadableRecordError: if it is too long, not a JSON object that can be written again, or of a newer schema
    """
    if len(value) > LARGEST_VALUE:
        raise UnreadableRecordError(f"it has {len(value)} bytes, more than the {LARGEST_VALUE} that a record may have")
    try:
        data = msgspec.json.decode(value)
    except (ValueError, msgspec.MsgspecError, RecursionError) as wrong:
        raise UnreadableRecordError(f"not JSON: {wrong}") from wrong
    if not isinstance(data, dict):
        raise UnreadableRecordError(f"not a JSON object but {type(data).__name__}")
    version = data.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnreadableRecordError(f"no schema version in 'v': {short(version)}")
    if version > NEWEST_VERSION:
        raise UnreadableRecordError(
            f"schema version {version} is newer than {NEWEST_VERSION}, the newest known here: upgrade this worker"
        )
    return data


def convert(data: object, to: type[T]) -> T:
    """As ``msgspec.convert``, but its errors are ``ValueError``, as they are from msgspec 0.21 on. The constraints of
    Airflow 3.1 have an older one.

    :raises ValueError: if ``data`` can't be read as that type
    """
    try:
        return msgspec.convert(data, to)
    except msgspec.MsgspecError as wrong:
        raise ValueError(str(wrong)) from wrong


def dump(data: Any, *, deepest: int = _DEEPEST_RECORD) -> bytes:
    """Encode a value in its one JSON form: compact, with sorted keys, so that equal values have equal bytes and hashes.

    Written by ``json``, though msgspec reads it: msgspec writes floats differently, and fingerprints are hashes of
    these bytes.

    :param deepest: the most levels of objects and lists that it may have
    :raises ValueError: for what JSON can't carry: other types, NaN, infinities, keys that are not strings
    """
    try:
        check_depth(data, deepest)
        return _ENCODER.encode(data).encode()
    except (TypeError, RecursionError) as wrong:
        raise ValueError(str(wrong)) from wrong


_ENCODER: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def check_depth(data: Any, deepest: int = DEEPEST) -> None:
    """Check that a value can be written again everywhere.

    :raises ValueError: if it is nested deeper than ``deepest`` levels
    :raises TypeError: for keys like 1 or None, which ``json`` would silently turn into strings, so that another value
        would be read
    """
    level = [data] if isinstance(data, _CONTAINERS) else []
    seen: set[int] = set()
    for _ in range(deepest):
        if not level:
            return
        inside: list[Any] = []
        for value in level:
            if id(value) in seen:
                continue  # it contains itself, which ``json`` reports
            seen.add(id(value))
            if isinstance(value, dict):
                for key in value:
                    if not isinstance(key, str):
                        raise TypeError(f"the key {short(key)} is not a string")
            parts = value.values() if isinstance(value, dict) else value
            inside.extend([each for each in parts if isinstance(each, _CONTAINERS)])
        if not inside:
            return
        level = inside
    if level:
        raise ValueError(f"it is nested more than {deepest} levels deep")


_CONTAINERS: Final = (dict, list, tuple)
"""The types with values inside, for ``json``."""


def check_plain(value: object) -> None:
    """Refuse values that Python reads from JSON, but that can't be used further.

    :raises ValueError: for half a surrogate pair, which can't be written again, for text that is too long, and for
        numbers that don't fit into 64 bits
    """
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"must have at most {LONGEST_TEXT} characters")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("must be text that can be written as UTF-8")
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("must fit into 64 bits")
