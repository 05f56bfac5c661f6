"""What an application prints: each line goes into the worker's log, and the last ones into the error if it fails."""

from __future__ import annotations

import logging
import signal
from collections import deque
from typing import Final

from airflow_provider.spark.local.driver_jvm.jvm_log import Levels

log = logging.getLogger(__name__)

_LAST_LINES: Final = 30
_LAST_CHARS: Final = 1_500
_SIGNALLED: Final = 128
_KILLED: Final = 137


class ApplicationError(Exception):
    """An application has failed."""

    def __init__(self, name: str, code: int, last: str) -> None:
        super().__init__(f"the application {name} has ended with {_end_in_words(code)}. Its last lines:\n{last}")


class Output:
    """Of one application.

    :param label: stands before each line in the log, where other tasks write, too
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._levels = Levels()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    def hear(self, line: str) -> None:
        level, message = self._levels.of(line)
        log.log(level, "%s | %s", self._label, message)
        if level > logging.DEBUG:
            self._last.append(line)

    def last(self) -> str:
        """The last lines, as many as an error has room for."""
        return "\n".join(self._last)[-_LAST_CHARS:] or "(it printed nothing)"


def _end_in_words(code: int) -> str:
    if code == _KILLED:
        return "SIGKILL (was the machine out of memory?)"
    try:
        return f"exit code {code}" if code <= _SIGNALLED else signal.Signals(code - _SIGNALLED).name
    except ValueError:
        return f"exit code {code}"
