"""Everything that ``cospark`` prints goes through here, because much of it comes from others.

A terminal obeys escape sequences. In a worker's name or a task's error, they could hide lines, forge others, or put
text into the clipboard. So unprintable characters are shown as Python's escapes.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import datetime, timezone
from typing import Final, TextIO

_UNSEEN: Final = re.compile(
    "["
    "\x00-\x08\x0a-\x1f\x7f-\x9f"  # control characters, but for the tab
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"  # line ends, and changes of the writing direction
    "\ud800-\udfff"  # not representable as UTF-8, such as bytes of an argument that are not text
    "]"
)


def printable(text: object) -> str:
    """The text as one line, safe for a terminal."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print lines, and flush; by default to standard output."""
    print("\n".join(map(printable, lines)), file=file, flush=True)


def complain(problem: str) -> None:
    """Print to standard error. Our own messages may have several lines."""
    say(*problem.split("\n"), file=sys.stderr)


def log_to_terminal() -> None:
    """Log everything from level INFO on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_TerminalFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _TerminalFormatter(logging.Formatter):
    """Keeps the lines of a traceback, but indents them, so that none looks like a record of its own. Its times have
    their offset from UTC: logs of several machines are read side by side.
    """

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        return datetime.fromtimestamp(record.created, timezone.utc).astimezone().isoformat(" ", "milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        return "\n  ".join(map(printable, super().format(record).split("\n")))
