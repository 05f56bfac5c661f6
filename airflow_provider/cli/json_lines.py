"""A line of JSON that somebody wrote: its fields, or what is wrong with them, by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider.protocol.model import Tasks, tasks_from_json


class UnreadableLineError(Exception):
    """A line that does not say what it should; says which field is wrong, and how."""


def object_of_line(line: bytes) -> Mapping[str, Any]:
    """The JSON object that a line is.

    :raises UnreadableLineError: it is none
    """
    try:
        data = json.loads(line.rstrip().decode())
    except RecursionError:
        raise UnreadableLineError("not JSON that can be read: too deeply nested") from None
    except json.JSONDecodeError as wrong:
        raise UnreadableLineError(f"not JSON: {wrong.msg} at column {wrong.colno}") from None
    except ValueError as wrong:
        raise UnreadableLineError(f"not JSON: {wrong}") from None
    if not isinstance(data, dict):
        raise UnreadableLineError(f"not a JSON object: {shown(data)}")
    return data


def required(data: Mapping[str, Any], key: str) -> Any:
    """A field.

    :raises UnreadableLineError: it is missing
    """
    if key not in data:
        raise UnreadableLineError(f"{key} is missing")
    return data[key]


def object_field(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A field that is an object.

    :raises UnreadableLineError: it is missing, or none
    """
    value = required(data, key)
    if not isinstance(value, dict):
        raise UnreadableLineError(f"{key} must be an object, not {shown(value)}")
    return value


def tasks_of(value: object, key: str) -> Tasks:
    """The tasks in a list of ``[job, index]`` pairs.

    :param key: of the field, for the error
    :raises UnreadableLineError: it is none
    """
    if not isinstance(value, list):
        raise UnreadableLineError(f"{key} must be a list of [job, index] pairs, not {shown(value)}")
    try:
        return tasks_from_json(value)
    except ValueError as wrong:
        raise UnreadableLineError(f"{key}: {wrong}") from None


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as JSON, cut where it gets long."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
