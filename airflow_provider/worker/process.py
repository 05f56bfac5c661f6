"""Which process this is, in a form by which another can see later that it has ended.

A worker that starts under the name of another waits until that one's lease must be over, unless it can see that the
process is gone; after a crash on the same host that saves a session's time.

Two places may have the same host name: containers on their host's network, machines made from one image. So a place is
a start of a kernel (boot id) and, since each container numbers its processes by itself, a pid namespace.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from airflow_provider.kafka.records import WorkerPhase, WorkerStatus
from airflow_provider.membership.events import Predecessor

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_process() -> str:
    """``host/place/pid/start``; a host without procfs leaves place and start empty, and nothing can be seen of it."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{_place()}/{pid}/{_start_of(pid)}"


def predecessor_of(worker: WorkerStatus | None) -> Predecessor:
    """What the worker's last record tells of the process that wrote it."""
    if worker is None or worker.state in (WorkerPhase.LEFT, WorkerPhase.DEFERRED):
        return Predecessor.GONE
    return Predecessor.GONE if has_ended(worker.process) else Predecessor.UNKNOWN


def has_ended(process: str) -> bool:
    """Whether ``process`` surely is no more; False where that can't be seen from here."""
    host, place, pid, start = (process.split("/") + [""] * 4)[:4]
    if (host, place) != (socket.gethostname(), _place()) or not place or not start or not pid.isdigit():
        return False
    return _start_of(int(pid)) != start


def _place() -> str:
    """Where a number names one process; empty if that can't be told."""
    try:
        return f"{_BOOT_ID.read_text().strip()}+{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """When the process started, in the kernel's ticks; empty if there is none or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    after_name = stat.rpartition(")")[2].split()
    state, start = after_name[0], after_name[19]
    return "" if state in "ZX" else start
