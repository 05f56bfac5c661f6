"""Lets the main thread wait for another thread so that signal handlers still run.

Python runs handlers only in the main thread. The kernel wakes that thread for a signal, but a thread that starts
another one at that moment may take the signal from it. Then the main thread sleeps on, and if it waited without limit,
the handler would never run.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

_LOOK_S: Final = 0.5
"""How long a signal waits at most."""


def wait_for(future: Future[Any], timeout_s: float | None = None) -> bool:
    """Wait until the future is done, at most so many seconds.

    :returns: whether it is done
    :raises BaseException: what a signal handler raises
    """
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s
    # Not by the future's own waits: what a handler raises there may leave the future locked.
    done: SimpleQueue[Future[Any]] = SimpleQueue()
    future.add_done_callback(done.put)
    while not future.done() and (left_s := until - time.monotonic()) > 0:
        with suppress(Empty):
            done.get(timeout=min(left_s, _LOOK_S))
    return future.done()
