"""What may be written into a topic: plain JSON."""

from __future__ import annotations

import json
import math
from typing import Any, Final

MAX_DEPTH: Final = 64


class NotJsonError(Exception):
    """JSON cannot carry a value; the message says where it is and what it is."""


def to_json_value(value: object) -> Any:
    """``value`` as it will be read back from a topic: tuples have become lists, nothing is shared with the original.

    :raises NotJsonError: for what JSON cannot carry, NaN and keys that are not strings among it; says where it is
    """
    _check(value, "$", MAX_DEPTH)
    return json.loads(json.dumps(value, allow_nan=False))


def to_small_json_value(value: object, max_bytes: int) -> Any:
    """As :func:`to_json_value`, for what has to fit into a record.

    :raises NotJsonError: also if its JSON has more than ``max_bytes`` bytes
    """
    plain = to_json_value(value)
    size = len(json.dumps(plain))
    if size > max_bytes:
        raise NotJsonError(f"$ has {size} bytes as JSON, more than the {max_bytes} that a record has room for")
    return plain


def _check(value: object, path: str, depth: int) -> None:
    if depth == 0:
        raise NotJsonError(f"{path[:40]}... is more than {MAX_DEPTH} levels deep, or contains itself")
    if value is None or isinstance(value, (str, bool, int)):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJsonError(f"{path} is {value}, which JSON does not have")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotJsonError(f"{path} has the key {key!r}; keys must be strings")
            _check(item, f"{path}.{key}", depth - 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth - 1)
    else:
        raise NotJsonError(f"{path} is a {type(value).__module__}.{type(value).__qualname__}, which JSON does not have")
