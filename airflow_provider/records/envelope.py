"""A record's value as bytes: a JSON object with the version of its schema in ``"v"``.

Fields that a reader doesn't know are ignored, so a schema may gain fields without a new version. A higher version means
that the meaning of a field has changed: such a record is unreadable here, and the reader says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from reprlib import repr as short
from typing import Any, Final, TypeVar

import msgspec

from airflow_provider.protocol.model import LARGEST_NUMBER

T = TypeVar("T")

SCHEMA_VERSION: Final = 1
LARGEST_VALUE: Final = 16 * 1024 * 1024
"""Bytes before compression: what is longer is neither written nor parsed. Some hundred thousand tasks in a group record
come to as much; what brokers limit is the compressed size, of which a kilobyte may become a megabyte.
"""
LONGEST_TEXT: Final = 8_191
"""Characters of a name, a url, a key or a message: all the wire is sure to carry."""
_LARGEST: Final = 2**63 - 1
# What one thread has read others write, hash and copy, with less stack left than that one had.
DEEPEST: Final = 100
"""Levels of objects and lists in what users give: configs, results."""
_DEEPEST_RECORD: Final = DEEPEST + 10

TEXT: Final = msgspec.Meta(max_length=LONGEST_TEXT)
COUNT: Final = msgspec.Meta(ge=0, le=LARGEST_NUMBER)
"""What fields of records are annotated with: as from JSON they are read by ``msgspec.convert``, which checks both."""


class UnreadableRecordError(ValueError):
    """A key or value that is none of this package's records, or one of a newer schema."""


def encode(data: Mapping[str, Any]) -> bytes:
    """The bytes of a record's JSON form.

    :raises ValueError: for what JSON can't carry
    """
    return dump({"v": SCHEMA_VERSION, **data})


def encode_step(data: dict[str, Any], *, free: tuple[str, ...]) -> bytes:
    """The same bytes in a fifth of the time, by ``msgspec``: for what is written of each task many times a second.

    :param data: a record's JSON form; its texts, whole numbers and names of fields are this package's own
    :param free: the fields with other values in them, which ``json`` writes as it writes all others
    :raises ValueError: for what JSON can't carry
    """
    given = {name: msgspec.Raw(dump(data[name])) for name in free if data.get(name) is not None}
    return msgspec.json.encode({"v": SCHEMA_VERSION, **data, **given}, order="sorted")


def decode(value: bytes) -> dict[str, Any]:
    """The inverse of :func:`encode`.

    :raises UnreadableRecordError: if it is too long, no JSON object that can be written again, or of a newer schema
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
    if version > SCHEMA_VERSION:
        raise UnreadableRecordError(
            f"schema version {version} is newer than {SCHEMA_VERSION}, the newest known here: upgrade this worker"
        )
    return data


def convert(data: object, to: type[T]) -> T:
    """As ``msgspec.convert``, but that its errors are no ``ValueError`` before 0.21, which is newer than what the
    constraints of Airflow 3.1 hold.

    :raises ValueError: if it can't be read as that
    """
    try:
        return msgspec.convert(data, to)
    except msgspec.MsgspecError as wrong:
        raise ValueError(str(wrong)) from wrong


def dump(data: Any, *, deepest: int = _DEEPEST_RECORD) -> bytes:
    """The one JSON form of a value: compact, keys sorted, so that equal values have equal bytes and equal hashes.

    By ``json``, though msgspec reads: what it writes of a float differs, and fingerprints are hashes of these bytes.

    :param deepest: how many levels of objects and lists it may have
    :raises ValueError: for what JSON can't carry: other types, NaN, infinities, keys that are not strings
    """
    try:
        check_depth(data, deepest)
        return _ENCODER.encode(data).encode()
    except (TypeError, RecursionError) as wrong:
        raise ValueError(str(wrong)) from wrong


_ENCODER: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def check_depth(data: Any, deepest: int = DEEPEST) -> None:
    """What is nested deeper than this can't be written again everywhere. Nor can keys like 1 or None, which ``json``
    turns into strings without a word: the value read would not be the one written.

    :raises ValueError: for the one
    :raises TypeError: for the other
    """
    level = [data] if isinstance(data, _CONTAINERS) else []
    seen: set[int] = set()
    for _ in range(deepest):
        if not level:
            return
        inside: list[Any] = []
        for value in level:
            if id(value) in seen:
                continue  # it contains itself, which ``json`` says
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
"""What ``json`` goes into."""


def check_plain(value: object) -> None:
    """Refuse what Python reads from JSON, and what nobody can go on with.

    :raises ValueError: for half a surrogate pair, which can't be written again, for text that is too long, and for
        numbers that no clock has
    """
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ValueError(f"must have at most {LONGEST_TEXT} characters")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("must be text that can be written as UTF-8")
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("must fit into 64 bits")
