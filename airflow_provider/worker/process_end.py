"""How a process ends whose jobs' code has left threads, child processes or functions of ``atexit`` that do not end by
themselves.

Python waits for all these when it ends, of the processes for those of ``multiprocessing``: a pool in a job would keep
the process of a worker that has left its group for as long as the pool works.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

GRACE_S: Final = 30.0
"""How long a process waits for what jobs have left running in it."""


def ending_in_time(act: Callable[[], int], *, grace_s: float) -> int:
    """Call ``act``. If its threads keep the process for longer than ``grace_s`` afterwards, the process names them, and
    ends with this exit status.

    :returns: the exit status that ``act`` has returned
    """
    before = frozenset(threading.enumerate())
    status = act()
    left = [thread for thread in threading.enumerate() if not thread.daemon and thread not in before]
    with contextlib.suppress(RuntimeError):  # there may be no more threads
        threading.Thread(target=_end, args=(left, status, grace_s), name="process-end", daemon=True).start()
    return status


def _end(threads: list[threading.Thread], status: int, grace_s: float) -> None:
    time.sleep(grace_s)
    names = [f"thread {thread.name!r}" for thread in threads if thread.is_alive()]
    children = _waited_for()
    names += [f"process {child.name!r}" for child in children]
    what = ", ".join(names) or "a function of atexit"
    print(
        f"cospark: still running {grace_s:g} s after the end: {what}; a job has left them. This process"
        " ends without them",
        file=sys.stderr,
        flush=True,
    )
    for child in children:
        child.terminate()
    logging.shutdown()
    os._exit(status)


def _waited_for() -> list[BaseProcess]:
    """The child processes for which ``multiprocessing`` waits; it ends the daemons among them itself."""
    module = sys.modules.get("multiprocessing")  # if nobody has imported it, there are none
    return [] if module is None else [child for child in module.active_children() if not child.daemon]
