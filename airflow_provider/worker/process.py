"""Which process this is, in a form by which another can see later that it has ended.

A worker that starts under the name of another waits until that one's lease must be over, unless it can see that the
process is gone; after a crash on the same host that saves a session's time.

Two places may have the same host name: containers on their host's network, machines made from one image. So a place is
a start of a kernel (boot id) and, since each container numbers its processes by itself, a pid namespace.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Final

from airflow_provider.kafka.records import WorkerPhase, WorkerStatus
from airflow_provider.membership.events import Predecessor

_PROC: Final = Path("/proc")
_NUMBER: Final = re.compile("[0-9]{1,9}")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")


def this_process() -> str:
    """``host/place/pid/start``; a host without procfs leaves place and start empty, and nothing can be seen of it."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{_place()}/{pid}/{_start_of(pid) or ''}"


def predecessor_of(worker: WorkerStatus | None) -> Predecessor:
    """What the worker's last record tells of the process that wrote it."""
    if worker is None or worker.state in (WorkerPhase.LEFT, WorkerPhase.DEFERRED):
        return Predecessor.GONE
    return Predecessor.GONE if has_ended(worker.process) else Predecessor.UNKNOWN


def has_ended(process: str) -> bool:
    """Whether ``process`` surely is no more; False where that can't be seen from here."""
    host, place, pid, start = (process.split("/") + [""] * 4)[:4]
    if (host, place) != (socket.gethostname(), _place()) or not place or not start or not _NUMBER.fullmatch(pid):
        return False
    return _is_over(int(pid), start)


def _is_over(pid: int, start: str) -> bool:
    """Whether the process of that number is none, a zombie, or one that started at another time.

    Only the kernel's word counts for none: procfs may hide the processes of other users (``hidepid``).
    """
    began = _start_of(pid)
    return not _exists(pid) if began is None else began != start


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _place() -> str:
    """Where a number names one process; empty if that can't be told."""
    try:
        return f"{_BOOT_ID.read_text().strip()}+{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; empty if it is a zombie, None if it can't be seen."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    state, start = after_name[0], after_name[19]
    return "" if state in "ZX" else start
