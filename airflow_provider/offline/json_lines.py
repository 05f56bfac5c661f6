"""Lines of JSON that somebody wrote: each is answered by another one, or with what is wrong with it, by field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from airflow_provider.cli.terminal import complain, say
from airflow_provider.offline.lines import open_lines
from airflow_provider.protocol.model import Tasks, tasks_from_json


class UnreadableLineError(Exception):
    """A line that does not say what it should; says which field is wrong, and how."""


class LineAnswer(NamedTuple):
    """What is made of a line, and which of its keys mean nothing."""

    made: Mapping[str, Any]
    ignored: frozenset[str]


def answer_lines(command: str, file: str, answer: Callable[[bytes], LineAnswer]) -> int:
    """LineAnswer every line, each before the next is read. A key that means nothing is named once.

    :param command: which of ``cospark``'s
    :param file: its name, or standard input
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
                complain(f"cospark {command}: line {number}: the key {key!r} means nothing here, and is ignored")
            complained |= ignored
            say(json.dumps(made))
    return status


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
