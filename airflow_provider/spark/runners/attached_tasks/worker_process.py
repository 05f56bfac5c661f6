"""Keeps the code of a task from breaking what its worker and all other tasks use in the same process.

Whatever makes their calls fail is put back. All else that a task changes in the process stays: it may be meant for
others, as what a module does when it is imported.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from airflow_provider.spark.runners.attached_tasks.worker_logging import WorkerLogging

log = logging.getLogger(__name__)

_STREAMS: Final = ("stdout", "stderr")


@dataclass(slots=True)
class WorkerProcess:
    """How a process is before tasks run in it.

    :param logs: how it logs
    :param socket_timeout_s: of sockets that have none of their own; Spark's JVM is asked by such
    :param raised: the filters that make errors of warnings
    :param descriptors: of its standard streams, as far as they have any
    :param level: at which it is logged that something can't be put back
    """

    logs: WorkerLogging
    socket_timeout_s: float | None
    raised: tuple[Any, ...]
    descriptors: Mapping[str, int]
    level: int = logging.ERROR

    @classmethod
    def as_it_is(cls) -> WorkerProcess:
        return cls(WorkerLogging.as_it_is(), socket.getdefaulttimeout(), (*_raised(),), _descriptors())

    def put_back(self) -> None:
        """Never raises: whatever a task's code has made of this process, the worker has to go on."""
        try:
            self._put_back()
        except Exception:
            log.log(
                self.level,
                "Could not put back what the code of a task had changed, for this whole process; trying again",
                exc_info=True,
            )
            self.level = logging.DEBUG

    def _put_back(self) -> None:
        changed = [*self._open_streams()]
        self.logs.put_back()
        if socket.getdefaulttimeout() != self.socket_timeout_s:
            socket.setdefaulttimeout(self.socket_timeout_s)
            changed.append("the time limit of sockets")
        if added := [each for each in _raised() if each not in self.raised]:
            warnings.filters[:] = [each for each in warnings.filters if each not in added]  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001 - Python remembers what they say
            changed.append("which warnings are errors")
        if changed:
            log.warning("The code of a task had changed %s, for this whole process; put back", ", ".join(changed))

    def _open_streams(self) -> list[str]:
        closed = [name for name in _STREAMS if not _is_open(name)]
        for name in closed:
            old, new = getattr(sys, name, None), _opened(self.descriptors.get(name))
            setattr(sys, name, new)
            for handler in logging.getLogger().handlers:
                if old is not None and isinstance(handler, logging.StreamHandler) and handler.stream is old:
                    handler.stream = new  # setStream() would flush the old one
        return [f"sys.{name}" for name in closed]


def _is_open(name: str) -> bool:
    """Whether the stream can be used. One that is detached from its file can't even say that it is closed."""
    try:
        return not getattr(getattr(sys, name), "closed", False)
    except Exception:  # noqa: BLE001  it is gone, or of a job's own class
        return False


def _raised() -> list[Any]:
    return [each for each in warnings.filters if each[0] == "error"]


def _descriptors() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _STREAMS:
        try:
            found[name] = getattr(sys, name).fileno()
        except (AttributeError, OSError, ValueError):
            log.debug("sys.%s has no file", name)
    return found


def _opened(descriptor: int | None) -> IO[str]:
    """A new stream to where the closed one went: Python leaves the file of a standard stream open."""
    try:
        if descriptor is not None:
            return open(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)
    except OSError:
        log.debug("File %d is closed, too", descriptor)
    return open(os.devnull, "w")  # noqa: PTH123
