"""The identity of this process, by which another process can see later that it has ended.

A process that takes over a worker's name waits until the previous process's lease must be over, unless it can see that
this process has ended. After a crash on the same host, this saves the time of a session. A process has not ended while
a JVM is alive that it has started.

Several places may have the same host name: containers on their host's network, or machines from one image. So a place
is identified by the kernel's boot id and, because each container has process ids of its own, by the pid namespace.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import socket
from pathlib import Path
from typing import Final, NamedTuple

from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.spark.local.driver_jvm.jvm import kill_ownerless_jvm, present_jvm
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.views.presence import is_same_process
from airflow_provider.values.procfs import is_over, start_of

log = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
_PIDS: Final = re.compile(r"(?:/[0-9]{1,9}/[0-9]+){1,2}")
_WITH_JVM: Final = 2


class _Pid(NamedTuple):
    """A process on this host, in this container."""

    number: int
    start: str

    @property
    def over(self) -> bool:
        return is_over(self.number, self.start)


def this_process() -> str:
    """``host/place/pid/start``, followed by ``/pid/start`` of its JVM if there is one. On a host without procfs, place
    and start are empty, and others can't see whether the process has ended.
    """
    jvm = present_jvm()
    return f"{_described(os.getpid())}/{jvm}" if jvm else _described(os.getpid())


def predecessor_of(worker: WorkerStatus | None) -> Predecessor:
    """What the worker's last record says about the process that wrote it."""
    if worker is None or worker.state in (WorkerPhase.LEFT, WorkerPhase.DEFERRED):
        return Predecessor.GONE
    return Predecessor.GONE if has_ended(worker.process) else Predecessor.UNKNOWN


def is_gone(worker: WorkerStatus) -> bool:
    """Whether the process that wrote this record certainly runs nothing now."""
    return worker.state is WorkerPhase.LEFT or has_ended(worker.process)


def has_ended(process: str) -> bool:
    """Whether ``process`` and its JVM have certainly ended; False if this can't be seen from here."""
    seen = _seen(process)
    return bool(seen) and all(pid.over for pid in seen)


def still_runs(process: str) -> bool:
    """Whether ``process`` or its JVM can be seen to run; False also if this can't be seen from here."""
    return any(not pid.over for pid in _seen(process))


def end_what_outlived(worker: WorkerStatus | None) -> None:
    """Kill the JVM of the worker's last process, if that has ended without it and was on this host."""
    seen = _seen(worker.process) if worker is not None else []
    if len(seen) == _WITH_JVM and seen[0].over and not seen[1].over and kill_ownerless_jvm(*seen[1]):
        log.warning("Killed JVM %d: it had outlived process %d, which had this worker's name", seen[1][0], seen[0][0])


def tell_of_rival(worker: WorkerStatus | None) -> None:
    """Log that another process has the name of the worker that starts here, and may still be running.

    The coordinator fences the other process. After a restart this is right; if two were started by mistake, the log has
    to say so.
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
    """The process and its JVM; none if they can't be seen from here."""
    place = _place_of(os.getpid())
    here = f"{socket.gethostname()}/{place}"
    pids = process.removeprefix(here)
    if not place or not process.startswith(here) or not _PIDS.fullmatch(pids):
        return []
    numbers = pids.split("/")[1:]
    return [_Pid(int(number), start) for number, start in zip(numbers[::2], numbers[1::2], strict=True)]


@functools.cache
def _place_of(_pid: int) -> str:
    """The place in which process ids are unique: this boot of this host, and this container. Empty: unknown."""
    try:
        return f"{_BOOT_ID.read_text().strip()}+{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""


@functools.cache
def _described(pid: int) -> str:
    return f"{socket.gethostname()}/{_place_of(pid)}/{pid}/{start_of(pid) or ''}"
