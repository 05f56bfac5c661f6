"""Which process this is, in a form by which another can see later that it has ended.

A worker that starts under the name of another waits until that one's lease must be over, unless it can see that the
process is gone; after a crash on the same host that saves a session's time. A process is not gone as long as the JVM
lives that it has started.

Two places may have the same host name: containers on their host's network, machines made from one image. So a place is
a start of a kernel (boot id) and, since each container numbers its processes by itself, a pid namespace.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import socket
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider.driver.jvm import end_orphan, present_jvm
from airflow_provider.ledger.presence import is_same_process
from airflow_provider.procfs import is_over, start_of
from airflow_provider.protocol.holding import Predecessor
from airflow_provider.records import WorkerPhase, WorkerStatus

log = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_PIDS: Final = re.compile(r"(?:/[0-9]{1,9}/[0-9]+){1,2}")
_WITH_JVM: Final = 2


class _Pid(NamedTuple):
    """A process of this place."""

    number: int
    start: str

    @property
    def over(self) -> bool:
        return is_over(self.number, self.start)


def this_process() -> str:
    """``host/place/pid/start``, and ``/pid/start`` of its JVM once there is one. A host without procfs leaves place and
    start empty, and nothing can be seen of it.
    """
    jvm = present_jvm()
    return f"{_described(os.getpid())}/{jvm}" if jvm else _described(os.getpid())


def predecessor_of(worker: WorkerStatus | None) -> Predecessor:
    """What the worker's last record tells of the process that wrote it."""
    if worker is None or worker.state in (WorkerPhase.LEFT, WorkerPhase.DEFERRED):
        return Predecessor.GONE
    return Predecessor.GONE if has_ended(worker.process) else Predecessor.UNKNOWN


def is_gone(worker: WorkerStatus) -> bool:
    """Whether the process that wrote this record surely runs nothing now, wherever its membership is believed to be."""
    return worker.state is WorkerPhase.LEFT or has_ended(worker.process)


def has_ended(process: str) -> bool:
    """Whether ``process`` and its JVM surely are no more; False where that can't be seen from here."""
    seen = _seen(process)
    return bool(seen) and all(pid.over for pid in seen)


def still_runs(process: str) -> bool:
    """Whether something of ``process`` can be seen from here to run; False also where that can't be seen."""
    return any(not pid.over for pid in _seen(process))


def end_what_outlived(worker: WorkerStatus | None) -> None:
    """Kill the JVM of the worker's last process, if that has ended without it and was on this host."""
    seen = _seen(worker.process) if worker is not None else []
    if len(seen) == _WITH_JVM and seen[0].over and not seen[1].over and end_orphan(*seen[1]):
        log.warning("Killed JVM %d: it had outlived process %d, which had this worker's name", seen[1][0], seen[0][0])


def tell_of_rival(worker: WorkerStatus | None) -> None:
    """Say that another process had the name of the worker that starts here, and has not ended as far as can be seen.

    The coordinator fences it, which is what a restart needs; of two that were started by mistake each must say so.
    """
    if worker is None or predecessor_of(worker) is Predecessor.GONE or is_same_process(worker.process, this_process()):
        return
    seen = _seen(worker.process)
    if seen and not seen[0].over:
        log.warning(
            "worker %s: process %d on this host has that name, and is alive: it is fenced now, and stops its tasks. Two"
            " workers must not share a name",
            worker.worker,
            seen[0].number,
        )
    elif not seen:
        log.info(
            "worker %s: a process on %s had that name and has not said that it left. If it is alive, it is fenced now",
            worker.worker,
            worker.process.partition("/")[0] or "an unknown host",
        )


def _seen(process: str) -> list[_Pid]:
    """The processes that are meant, the worker's own first; none if they can't be seen from here."""
    place = _place_of(os.getpid())
    here = f"{socket.gethostname()}/{place}"
    pids = process.removeprefix(here)
    if not place or not process.startswith(here) or not _PIDS.fullmatch(pids):
        return []
    numbers = pids.split("/")[1:]
    return [_Pid(int(number), start) for number, start in zip(numbers[::2], numbers[1::2], strict=True)]


@functools.cache
def _place_of(_pid: int) -> str:
    """Where a process id names one process: this boot of this host, and this container. Empty if that is not known."""
    try:
        return f"{_BOOT_ID.read_text().strip()}+{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


@functools.cache
def _described(pid: int) -> str:
    return f"{socket.gethostname()}/{_place_of(pid)}/{pid}/{start_of(pid) or ''}"
