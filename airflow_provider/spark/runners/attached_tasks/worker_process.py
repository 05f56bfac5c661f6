"""Keeps the code of a task from breaking what its worker and all other tasks use in the same process.

Whatever makes their calls fail is put back. All else that a task changes in the process stays: it may be meant for
others, as what a module does when it is imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from airflow_provider.spark.runners.attached_tasks.worker_limits import WorkerLimits
from airflow_provider.spark.runners.attached_tasks.worker_logging import WorkerLogging

log = logging.getLogger(__name__)

_STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class _File:
    """An open file of this process.

    :param number: its descriptor
    :param identity: what tells it from another file that has got the same number after it was closed
    """

    number: int
    identity: tuple[int, int]

    @classmethod
    def of(cls, number: int) -> _File:
        """:raises OSError: if there is none"""
        stat = os.fstat(number)
        return cls(number, (stat.st_dev, stat.st_ino))


@dataclass(slots=True)
class WorkerProcess:
    """How a process is before tasks run in it.

    :param logs: how it logs
    :param limits: what it may use
    :param socket_timeout_s: of sockets that have none of their own; Spark's JVM is asked by such
    :param raised: the filters that make errors of warnings
    :param files: of its standard streams, as far as they have any
    :param level: at which it is logged that something can't be put back
    """

    logs: WorkerLogging
    limits: WorkerLimits
    socket_timeout_s: float | None
    raised: tuple[Any, ...]
    files: Mapping[str, _File]
    level: int = logging.ERROR

    @classmethod
    def as_it_is(cls) -> WorkerProcess:
        logs, limits = WorkerLogging.as_it_is(), WorkerLimits.as_they_are()
        return cls(logs, limits, socket.getdefaulttimeout(), (*_raised(warnings.filters),), _files())

    def put_back(self) -> None:
        """Never raises: whatever a task's code has made of this process, the worker has to go on."""
        try:
            self._put_back()
        except Exception:
            with contextlib.suppress(Exception):  # not even that may be possible
                log.log(
                    self.level,
                    "Could not put back what the code of a task had changed, for this whole process; trying again",
                    exc_info=True,
                )
            self.level = logging.DEBUG

    def _put_back(self) -> None:
        changed = [*self.limits.put_back(), *self._open_streams()]
        self.logs.put_back()
        if socket.getdefaulttimeout() != self.socket_timeout_s:
            socket.setdefaulttimeout(self.socket_timeout_s)
            changed.append("the time limit of sockets")
        if self._raise_less():
            changed.append("which warnings are errors")
        if changed:
            log.warning("The code of a task had changed %s, for this whole process; put back", ", ".join(changed))

    def _raise_less(self) -> bool:
        """Each filter is taken out of the list in which it was found. Other threads may replace this list meanwhile, by
        ``warnings.catch_warnings``, and put the former one back; and what is in one must not get into the other.
        """
        filters: Any = warnings.filters
        added = [each for each in _raised(filters) if each not in self.raised]
        for each in added:
            with contextlib.suppress(ValueError):  # its own thread has removed it
                filters.remove(each)
        if added:
            warnings._filters_mutated()  # type: ignore[attr-defined]  # noqa: SLF001 - Python remembers what they say
        return bool(added)

    def _open_streams(self) -> list[str]:
        closed = [name for name in _STREAMS if not _is_open(name)]
        for name in closed:
            old, new = getattr(sys, name, None), _opened(self.files.get(name))
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


def _raised(filters: Sequence[Any]) -> list[Any]:
    return [each for each in filters if each[0] == "error"]


def _files() -> dict[str, _File]:
    found: dict[str, _File] = {}
    for name in _STREAMS:
        try:
            found[name] = _File.of(getattr(sys, name).fileno())
        except (AttributeError, OSError, ValueError):
            log.debug("sys.%s has no file", name)
    return found


def _opened(file: _File | None) -> IO[str]:
    """A new stream to where the closed one went: Python leaves the file of a standard stream open. If that is closed,
    too, its number may be that of another file by now, such as a connection to a broker.
    """
    try:
        if file is not None and _File.of(file.number) == file:
            return open(file.number, "w", buffering=1, errors="backslashreplace", closefd=False)
    except OSError:
        log.debug("The file of a standard stream is closed, too", exc_info=True)
    return open(os.devnull, "w")  # noqa: PTH123
