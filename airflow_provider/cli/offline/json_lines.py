"""Answers lines of JSON: each with another line, or with what is wrong with it, by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from airflow_provider.cli.offline.lines import open_lines
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.values.model import Tasks, tasks_from_json


class UnreadableLineError(Exception):
    """A line that can't be used; the message says which field is wrong, and how."""


class LineAnswer(NamedTuple):
    """The answer to a line, and the line's unknown keys."""

    made: Mapping[str, Any]
    ignored: frozenset[str]


def answer_lines(command: str, file: str, answer: Callable[[bytes], LineAnswer]) -> int:
    """Answer each line before the next is read. An unknown key is reported once.

    :param command: the name of the subcommand of ``cospark``
    :param file: the name of the input file, or standard input
    :param answer: raises :class:`UnreadableLineError` for a line that can't be answered
    :returns: 0 if every line could be answered, 1 if not, 2 if the file can't be opened
    """
    try:
        opened = open_lines(file)
    except OSError as wrong:
        complain(f"cospark {command}: can't read {file}: {wrong.strerror}")
        return 2
    status = 0
    complained: set[str] = set()
    with opened as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                made, ignored = answer(line)
            except UnreadableLineError as wrong:
                say(json.dumps({"error": f"line {number}: {wrong}"}))
                status = 1
                continue
            for key in sorted(ignored - complained):
                complain(f"cospark {command}: line {number}: the key {key!r} is unknown, and is ignored")
            complained |= ignored
            say(json.dumps(made))
    return status


def object_of_line(line: bytes) -> Mapping[str, Any]:
    """Parse a line as a JSON object.

    :raises UnreadableLineError: if it is not one
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
    """The value of a field.

    :raises UnreadableLineError: if it is missing
    """
    if key not in data:
        raise UnreadableLineError(f"{key} is missing")
    return data[key]


def object_field(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The value of a field that must be an object.

    :raises UnreadableLineError: if it is missing, or not an object
    """
    value = required(data, key)
    if not isinstance(value, dict):
        raise UnreadableLineError(f"{key} must be an object, not {shown(value)}")
    return value


def tasks_of(value: object, key: str) -> Tasks:
    """Read tasks from a list of ``[job, index]`` pairs.

    :param key: the field's name, for the error
    :raises UnreadableLineError: if it is not such a list
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
    """A value as JSON, shortened if it is long."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
