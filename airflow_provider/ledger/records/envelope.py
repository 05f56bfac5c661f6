"""A record's value as bytes: a JSON object with the version of its schema in ``"v"``.

Fields that a reader doesn't know are ignored, so a schema may gain fields without a new version. A higher version means
that the meaning of a field has changed: such a record is unreadable here, and the reader says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from reprlib import repr as short
from typing import Any, Final, TypeVar

from airflow_provider.protocol.model import LARGEST_NUMBER

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
# An escaped surrogate: only half of a pair, perhaps, which no text that is written as UTF-8 can have.
_HALF_A_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")

T = TypeVar("T")


class UnreadableRecordError(ValueError):
    """A key or value that is none of this package's records, or one of a newer schema."""


def encode(data: Mapping[str, Any]) -> bytes:
    """The bytes of a record's JSON form.

    :raises ValueError: for what JSON can't carry
    """
    return dump({"v": SCHEMA_VERSION, **data})


def decode(value: bytes) -> dict[str, Any]:
    """The inverse of :func:`encode`.

    :raises UnreadableRecordError: if it is too long, no JSON object that can be written again, or of a newer schema
    """
    if len(value) > LARGEST_VALUE:
        raise UnreadableRecordError(f"it has {len(value)} bytes, more than the {LARGEST_VALUE} that a record may have")
    try:
        text = value.decode()
        data = json.loads(text)
        if _HALF_A_PAIR.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as wrong:
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


def dump(data: Any, *, deepest: int = _DEEPEST_RECORD) -> bytes:
    """The one JSON form of a value: compact, keys sorted, so that equal values have equal bytes and equal hashes.

    :param deepest: how many levels of objects and lists it may have
    :raises ValueError: for what JSON can't carry: other types, NaN, infinities, keys that are not strings
    """
    try:
        _check_containers(data, deepest)
        return _ENCODER.encode(data).encode()
    except (TypeError, RecursionError) as wrong:
        raise ValueError(str(wrong)) from wrong


_ENCODER: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _check_containers(data: Any, deepest: int) -> None:
    """``json`` turns keys like 1 or None into strings without a word: the value read would not be the one written."""
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


_NOTHING: Final = object()


def want(data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The field ``name`` of ``data``, of exactly that kind.

    :raises ValueError: if it is missing or something else
    """
    value = data.get(name, _NOTHING)
    if type(value) is str is kind and value.isascii() and len(value) <= LONGEST_TEXT:
        return value  # nearly always: some hundred thousand a minute
    if value is _NOTHING:
        raise ValueError(f"the field {name!r} is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"the field {name!r} must be {_NAMES.get(kind, kind.__name__)}, not {short(value)}")
    try:
        check_plain(value)
    except ValueError as wrong:
        raise ValueError(f"the field {name!r} {wrong}") from None
    return value


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


def want_number(data: Mapping[str, Any], name: str, *, least: int = 0, most: int = LARGEST_NUMBER) -> int:
    """The whole number ``name`` of ``data``, in that range.

    :raises ValueError: if it is missing or something else
    """
    value = data.get(name)
    if type(value) is not int:
        value = want(data, name, int)
    if not least <= value <= most:
        raise ValueError(f"the field {name!r} must be from {least} to {most}, not {short(value)}")
    return value


def want_number_or_none(data: Mapping[str, Any], name: str) -> int | None:
    """As :func:`want_number`, but the field may be missing or null."""
    return None if data.get(name) is None else want_number(data, name)


def want_or_none(data: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """As :func:`want`, but the field may be missing or null."""
    return None if data.get(name) is None else want(data, name, kind)


_NAMES: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}
