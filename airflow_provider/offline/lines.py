"""Where ``cospark decode`` and ``cospark replay`` read their lines: a file, or standard input."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

STDIN: Final = "-"


def open_lines(name: str) -> AbstractContextManager[BinaryIO]:
    """Bytes and not text, so that a line with garbage in it spoils no other.

    :param name: of a file, or :data:`STDIN`, which is left open
    :raises OSError: if it can't be opened
    """
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin is None:  # the process was started without one
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return nullcontext(sys.stdin.buffer)
