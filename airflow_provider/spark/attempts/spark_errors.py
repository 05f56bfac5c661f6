"""Finds the cause in the messages of Spark's exceptions: pages of Java and Python traces, of which one line says what
is wrong. Of an error on an executor or in the JVM, this process only has the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
_IN_TRACE: Final = re.compile(r"^\t(?:at |\.\.\. ).*\nCaused by: (.+)", re.MULTILINE)
"""A cause where only Java writes one: after a frame. The message of an error may quote anything."""
_TYPE: Final = r"(?:[A-Za-z_][\w$]*\.)*[A-Za-z_][\w$]*"
_HEADS: Final = (
    re.compile(rf"\A{_TYPE}(?:: .*)?$", re.MULTILINE),
    re.compile(rf"\AAn error occurred while calling \S+\n: ({_TYPE}(?:: .*)?)$", re.MULTILINE),
    re.compile(rf"\A\(({_TYPE})\) (.*)"),
)
"""How the text of an error begins: as Java and Python print it, as py4j does, and as Spark Connect's client does."""
_OF_QUERY: Final = re.compile(r"\A\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: (.*)")
_QUERY_FAILED: Final = "org.apache.spark.sql.streaming.StreamingQueryException"
_CARRIES_JAVA: Final = re.compile(r"(?:py4j|pyspark\.errors)\.")
_FROM: Final = "The above exception was the direct cause of the following exception:"


def cause_in(message: str) -> str:
    """The cause of all: the error of the last Python traceback; otherwise Java's last cause, or the error of the lost
    Spark task. Empty if the message has no trace.
    """
    if has_python(message):
        return _python_error(message.rpartition(_PYTHON)[2])
    lost = _LOST_TASK.findall(message)
    causes = _CAUSED_BY.findall(message)
    return str((causes or lost or [""])[-1]).strip()


def thrown_in(text: str) -> Iterator[str]:
    """The errors that a text of Spark tells of, each as ``type: message`` in one line: an error of Java with its
    causes; or the error of the last Python traceback, with what that was raised from. What an error only quotes in its
    message does not count.
    """
    if not has_python(text):
        yield from _java_errors(text, text)
        return
    *before, last = text.split(_PYTHON)
    yield from _errors_of(_python_error(last), last)
    while before and before[-1].rstrip().endswith(_FROM):
        block = before.pop()
        yield from _errors_of(_python_error(block), block)


def thrown_as(name: str, message: str, trace: str) -> Iterator[str]:
    """The same for an error that this process has caught.

    :param name: of its type, with its module
    :param trace: that of Java, if PySpark has kept it apart from the message
    """
    yield from _errors_of(f"{name}: {message}", f"{message}\n{trace}")


def _errors_of(said: str, rest: str) -> Iterator[str]:
    """:param said: a Python error: its type and its message
    :param rest: the same text up to its end, where Java's trace may be
    """
    yield said.partition("\n")[0]
    if not _CARRIES_JAVA.match(said):
        return
    message = said.partition(": ")[2]
    if has_python(message):
        yield from thrown_in(message)
    else:
        yield from _java_errors(message, rest)


def _java_errors(text: str, trace: str) -> Iterator[str]:
    for head in _HEADS:
        if found := head.match(text):
            yield ": ".join(found.groups()) if found.groups() else found[0]
    if query := _OF_QUERY.match(text):
        yield f"{_QUERY_FAILED}: {query[1]}"
    yield from _IN_TRACE.findall(trace)


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
