"""Logs what the JVM prints on stderr as lines of this process's log, with the JVM's own levels.

Airflow takes everything on stderr for errors, but most of the JVM's lines are harmless. The JVM must never wait for our
log. So one thread only reads, and another one logs; lines that come too fast are counted and dropped. Both threads end
with the JVM.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import threading
from typing import IO, Final

log = logging.getLogger(__name__)

_MOST_WAITING: Final = 10_000
_LONGEST_LINE: Final = 16 * 1024
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_LOG4J: Final = re.compile(rf"[\d/\-]+[ T][\d:.,]+Z? +({'|'.join(_LEVELS)}) +(.*)", re.DOTALL)
_STRUCTURED: Final = re.compile(rf'\{{.*"level": ?"({"|".join(_LEVELS)})"')
_GREETING: Final = re.compile(
    "WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting (?:default|Spark) log level to "
    r"|To adjust logging level use sc\.setLogLevel"
)
_FRAME: Final = "\tat "
_MOST_FRAMES: Final = 10
_CONTINUED: Final = re.compile(
    r"\tat |\t\.\.\. \d+ |\t+Suppressed: |Caused by: "
    r"|(?:[a-z_][\w$]*\.)+[A-Z][\w$.]*(?:Exception|Error|Throwable)(?::|$)"
)


class Levels:
    """Finds the level of each line, given all lines in their order. Lines of an unknown form have INFO.

    A stack trace has the level of the line that it explains, but only its first frames: the others are Spark's and
    Scala's own, a hundred of them for a path that does not exist. These have DEBUG, and so have the lines that each JVM
    prints when Spark starts.
    """

    def __init__(self) -> None:
        self._head = logging.INFO
        self._frames = 0

    def of(self, line: str) -> tuple[int, str]:
        """The level of the next line, and its message."""
        self._frames = self._frames + 1 if line.startswith(_FRAME) else 0
        plain = _LOG4J.match(line)
        if plain is not None:
            self._head = _LEVELS[plain[1]]
            return self._head, plain[2]
        structured = _STRUCTURED.match(line)
        if structured is not None:
            self._head = _LEVELS[structured[1]]
            return self._head, line
        if self._frames > _MOST_FRAMES or _GREETING.match(line):
            return logging.DEBUG, line
        return (self._head if _CONTINUED.match(line) else logging.INFO), line


class JvmLog:
    """A pipe whose writing end is the stderr of a JVM. Everything that is read from it is logged.

    Use it as a context manager around the start of the JVM: afterwards, only the JVM has the writing end.
    """

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self._reading = os.fdopen(reading, "rb")
        self._lines: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._threads = [
            threading.Thread(target=self._read, name="jvm-stderr", daemon=True),
            threading.Thread(target=self._pass_on, name="jvm-log", daemon=True),
        ]
        _open.add(self._reading)
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> JvmLog:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.writing)

    def join(self, timeout_s: float) -> None:
        """Wait until all lines of the JVM are in the log. The JVM must have ended."""
        for thread in self._threads:
            thread.join(timeout_s)

    def _read(self) -> None:
        with self._reading as stderr, contextlib.suppress(OSError):
            while line := stderr.readline(_LONGEST_LINE):
                try:
                    self._lines.put_nowait(line)
                except queue.Full:
                    self._dropped += 1
        _open.discard(self._reading)
        self._lines.put(None)

    def _pass_on(self) -> None:
        levels, logged = Levels(), 0
        while (line := self._lines.get()) is not None:
            text = line.decode(errors="replace").rstrip()
            if text:
                level, message = levels.of(text)
                log.log(level, "%s", message)
            if self._dropped > logged:
                dropped, logged = self._dropped - logged, self._dropped
                log.warning("%d more lines of Spark's JVM came too fast to be logged", dropped)


_open: Final[set[IO[bytes]]] = set()


def _leave_pipes_to_parent() -> None:
    """A process that job code has forked must not keep the reading end open: the JVM of a killed owner would wait for
    it.
    """
    for reading in [*_open]:
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), reading.fileno(), inheritable=False)


os.register_at_fork(after_in_child=_leave_pipes_to_parent)
