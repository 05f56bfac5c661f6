"""A record's value as bytes: a JSON object with the version of its schema in ``"v"``.

Fields that a reader doesn't know are ignored, so a schema may gain fields without a new version. A higher version means
that the meaning of a field has changed: such a record is unreadable here, and the reader says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

SCHEMA_VERSION: Final = 1
_LARGEST: Final = 2**63 - 1
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

    :raises UnreadableRecordError: if it isn't a JSON object that can be written again, or of a newer schema
    """
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
        raise UnreadableRecordError(f"no schema version in 'v': {version!r}")
    if version > SCHEMA_VERSION:
        raise UnreadableRecordError(
            f"schema version {version} is newer than {SCHEMA_VERSION}, the newest known here: upgrade this worker"
        )
    return data


def dump(data: Any) -> bytes:
    """The one JSON form of a value: compact, keys sorted, so that equal values have equal bytes and equal hashes.

    :raises ValueError: for what JSON can't carry: other types, NaN, infinities, keys that are not strings
    """
    try:
        _check_keys(data)
        return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    except (TypeError, RecursionError) as wrong:
        raise ValueError(str(wrong)) from wrong


def _check_keys(data: Any) -> None:
    """``json`` turns keys like 1 or None into strings without a word: the value read would not be the one written."""
    pending = [data]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen or not isinstance(value, _CONTAINERS):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"the key {key!r} is not a string")
        inner = value.values() if isinstance(value, dict) else value
        pending.extend([each for each in inner if isinstance(each, _CONTAINERS)])


_CONTAINERS: Final = (dict, list, tuple)
"""What ``json`` goes into."""


_NOTHING: Final = object()


def want(data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The field ``name`` of ``data``, of exactly that kind.

    :raises ValueError: if it is missing or something else
    """
    value = data.get(name, _NOTHING)
    if value is _NOTHING:
        raise ValueError(f"the field {name!r} is missing")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"the field {name!r} must be {_NAMES.get(kind, kind.__name__)}, not {value!r}")
    try:
        check_plain(value)
    except ValueError as wrong:
        raise ValueError(f"the field {name!r} {wrong}") from None
    return value


def check_plain(value: object) -> None:
    """Refuse what Python reads from JSON, and what nobody can go on with.

    :raises ValueError: for half a surrogate pair, which can't be written again, and for numbers that no clock has
    """
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("must be text that can be written as UTF-8")
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("must fit into 64 bits")


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
