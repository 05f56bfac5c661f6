"""Ends the processes that a job's code has forked and that come back from it. They would go on as the worker: they
would report how the task has ended, and close its session, by connections to Spark that the worker itself still uses.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn


@contextlib.contextmanager
def only_in_this_process(mask: Callable[[str], str] | None = None) -> Iterator[None]:
    """Calls a job's code. Another process than the one that calls this never leaves it.

    :param mask: removes secrets from what that process prints; None: nobody knows them here, so it prints no message
    """
    here = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != here:
            _end(error, mask)
        raise
    if os.getpid() != here:
        _end(None, mask)


def _end(error: BaseException | None, mask: Callable[[str], str] | None) -> NoReturn:
    """End as Python ends a process, but with nothing of what the worker does at its end."""
    status = 0 if error is None else 1
    try:
        if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
            status = error.code or 0
        elif error is not None:
            what = type(error).__name__ if mask is None else mask("".join(traceback.format_exception(error))).rstrip()
            print(what, file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(status & 0xFF)  # as Python does: others are no numbers of the operating system
