"""Reads the messages of Spark's exceptions: pages of Java and Python traces, in which one line says what is wrong.

Nothing but the text is left of what failed on an executor, or in the JVM.
"""

from __future__ import annotations

import re
from typing import Final

_PYTHON: Final = "Traceback (most recent call last):"
_JAVA: Final = ("\n\tat ", "\nJVM stacktrace:", "\n\nDriver stacktrace:", "\n=== Streaming Query ===")
"""Also what Spark appends of a streaming query: its offsets, and its whole plan."""
_CALLED: Final = re.compile(r"\AAn error occurred while calling \S+\n: (?:[a-z_][\w$]*\.)*")
"""What py4j puts before Java's exception, and that exception's package."""
_LOST_TASK: Final = re.compile(r"most recent failure: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): (.+)")
_CAUSED_BY: Final = re.compile(r"^Caused by: (.+)", re.MULTILINE)


def cause_in(message: str) -> str:
    """The exception at the bottom: the last line of the last Python traceback, else of Java what failed the Spark task,
    else Java's last cause. Empty if the message has no trace.
    """
    if has_python(message):
        return _python_error(message.rpartition(_PYTHON)[2])
    lost = _LOST_TASK.findall(message)
    causes = _CAUSED_BY.findall(message)
    return str((causes or lost or [""])[-1]).strip()


def names_its_type(message: str) -> bool:
    """Whether it is py4j's, which begins with the type of Java's exception."""
    return bool(_CALLED.match(message))


def has_python(message: str) -> bool:
    """Whether Python has raised what it is about."""
    return _PYTHON in message


def without_traces(message: str) -> str:
    """What stands before the first Java frame and the first Python traceback, from the type of the exception on if the
    message names it.
    """
    return _CALLED.sub("", without_java_frames(message)).partition(_PYTHON)[0].strip()


def without_java_frames(message: str) -> str:
    """What stands before the first Java frame: also the traceback of an executor's Python."""
    for mark in _JAVA:
        message = message.partition(mark)[0]
    return message.strip()


def _python_error(rest: str) -> str:
    """The type and message below the frames, which are indented; a message may have several lines."""
    lines = rest.lstrip("\n").splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith(" ")), len(lines))
    kept: list[str] = []
    for line in lines[first:]:
        if not line.strip() or line.startswith(("\tat ", " SQLSTATE: ", "=== Streaming Query ===")):
            break
        kept.append(line.rstrip())
    return "\n".join(kept)
