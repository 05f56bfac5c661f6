"""What an application prints: each line goes into the worker's log, and the last ones into the error if it fails."""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from airflow_provider.spark.local.driver_jvm.jvm_log import Levels

log = logging.getLogger(__name__)

_LAST_LINES: Final = 30
_LAST_CHARS: Final = 1_500
_BURST: Final = 4 * 1024 * 1024
_PER_S: Final = 32 * 1024
"""So many bytes of an application's output go into the log: at once, and in the long run."""
_OF_LINE: Final = 100
"""What a line of the log has besides its text, about: a time, a label."""
_SIGNALLED: Final = 128
_KILLED: Final = 137


class ApplicationError(Exception):
    """An application has failed."""

    def __init__(self, name: str, code: int, last: str) -> None:
        super().__init__(f"the application {name} has ended with {_end_in_words(code)}. Its last lines:\n{last}")


class _LogAllowance:
    """How much more the log takes. When it is full, it takes nothing until there is room for more than a line: so what
    is left out is one piece, and not every other line.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = clock()
        self._left = float(_BURST)
        self._full = False

    def takes(self, size: int) -> bool:
        now = self._clock()
        self._left = min(_BURST, self._left + _PER_S * (now - self._at))
        self._at = now
        self._full = self._left < (_BURST / 4 if self._full else size)
        if not self._full:
            self._left -= size
        return not self._full


class Output:
    """Of one application.

    :param label: stands before each line in the log, where other tasks write, too
    :param clock: by which the log has room again
    """

    def __init__(self, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._levels = Levels()
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._allowance = _LogAllowance(clock)
        self._left_out = 0

    def hear(self, line: str) -> None:
        level, message = self._levels.of(line)
        if level > logging.DEBUG:
            self._last.append(line)
        if not log.isEnabledFor(level):
            return
        if self._allowance.takes(len(line) + _OF_LINE):
            self.say_what_was_left_out()
            log.log(level, "%s | %s", self._label, message)
        else:
            self._left_out += 1

    def say_what_was_left_out(self) -> None:
        """Since this was said last. Call it at the end."""
        if self._left_out:
            log.warning("%s | (%d more lines came too fast to be logged)", self._label, self._left_out)
            self._left_out = 0

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
