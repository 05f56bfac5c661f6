"""Opens the input of ``cospark decode`` and ``cospark replay``: a file, or standard input."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final

STDIN: Final = "-"


def open_lines(name: str) -> AbstractContextManager[BinaryIO]:
    """Open the input as bytes, so that garbage in one line does not affect the others.

    :param name: of a file, or :data:`STDIN`, which is left open
    :raises OSError: if it can't be opened
    """
    if name != STDIN:
        return Path(name).open("rb")
    if sys.stdin is None:  # the process was started without standard input
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return nullcontext(sys.stdin.buffer)
