"""Finds the cause in the messages of Spark's exceptions: pages of Java and Python traces, of which one line says what
is wrong. Of an error on an executor or in the JVM, this process only has the text.
"""

from __future__ import annotations

import re
from typing import Final

_PYTHON: Final = "Traceback (most recent call last):"
_JAVA: Final = ("\n\tat ", "\nJVM stacktrace:", "\n\nDriver stacktrace:", "\n=== Streaming Query ===")
"""The ends of a plain message. The last one begins what Spark appends about a streaming query: its offsets and its
plan.
"""
_CALLED: Final = re.compile(r"\AAn error occurred while calling \S+\n: (?:[a-z_][\w$]*\.)*")
"""What py4j writes before Java's exception, and the package of that exception."""
_LOST_TASK: Final = re.compile(r"most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): (.+)")
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+)", re.MULTILINE)


def cause_in(message: str) -> str:
    """The cause of all: the error of the last Python traceback; otherwise Java's last cause, or the error of the lost
    Spark task. Empty if the message has no trace.
    """
    if has_python(message):
        return _python_error(message.rpartition(_PYTHON)[2])
    lost = _LOST_TASK.findall(message)
    causes = _CAUSED_BY.findall(message)
    return str((causes or lost or [""])[-1]).strip()


def names_its_type(message: str) -> bool:
    """Whether py4j has written it: then it begins with the type of Java's exception."""
    return bool(_CALLED.match(message))


def has_python(message: str) -> bool:
    """Whether it has a Python traceback."""
    return _PYTHON in message


def without_traces(message: str) -> str:
    """The part before the first Java frame and the first Python traceback, without what py4j writes before the type of
    Java's exception.
    """
    return _CALLED.sub("", without_java_frames(message)).partition(_PYTHON)[0].strip()


def without_java_frames(message: str) -> str:
    """The part before the first Java frame. It may have the traceback of an executor's Python."""
    for mark in _JAVA:
        message = message.partition(mark)[0]
    return message.strip()


def _python_error(rest: str) -> str:
    """The type and the message, which follow the indented frames. A message may have several lines."""
    lines = rest.lstrip("\n").splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith(" ")), len(lines))
    kept: list[str] = []
    for line in lines[first:]:
        if not line.strip() or line.startswith(("\tat ", " SQLSTATE: ", "=== Streaming Query ===")):
            break
        kept.append(line.rstrip())
    return "\n".join(kept)
