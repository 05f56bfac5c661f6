"""The limits of a worker's process, and the folders in which it finds modules: they are put back when a task has made
less of them, because other tasks would then fail, or wait. What a task has raised or added stays, except what traces or
profiles new threads. The collection of garbage is left alone: PySpark itself switches it off for each call of a server,
which could crash otherwise.
"""

from __future__ import annotations

import math
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

_OF_SYSTEM: Final = tuple(
    sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")} - {resource.RLIMIT_CORE})
)
_HOOKED: Final[tuple[Any, ...]] = (threading, sys)
"""The modules with an ``excepthook``, without which no thread can be made."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """How a process is before tasks run in it.

    :param of_system: the soft limits of the operating system, by their numbers
    :param recursion: how deep calls may be
    :param switch_s: for how long a thread may keep others waiting; a task could make the worker late by this
    :param path: the folders with modules
    :param watched: what is called, by :mod:`threading`, wherever a thread is: it may raise
    """

    of_system: Mapping[int, int]
    recursion: int
    switch_s: float
    path: tuple[str, ...]
    watched: tuple[Any, Any]

    @classmethod
    def as_they_are(cls) -> WorkerLimits:
        of_system = {each: resource.getrlimit(each)[0] for each in _OF_SYSTEM}
        path, watched = (*sys.path,), _watched()
        return cls(of_system, sys.getrecursionlimit(), sys.getswitchinterval(), path, watched)

    def put_back(self) -> Iterator[str]:
        """Names what was changed, and is as before again."""
        if sys.getrecursionlimit() < self.recursion:  # first: whatever else is called here may need it
            sys.setrecursionlimit(self.recursion)
            yield "the recursion limit"
        if sys.getswitchinterval() > self.switch_s:
            sys.setswitchinterval(self.switch_s)
            yield "the interval after which threads are switched"
        if self._raise_of_system():
            yield "limits of the operating system"
        if not isinstance(sys.path, list):
            sys.path = []
        if missing := [folder for folder in self.path if folder not in sys.path]:
            sys.path += missing
            yield "sys.path"

        if _watched() != self.watched:
            trace, profile = self.watched
            threading.settrace(trace)
            threading.setprofile(profile)
            yield "what traces or profiles new threads"
        for module in _HOOKED:
            if not callable(getattr(module, "excepthook", None)):
                module.excepthook = module.__excepthook__
                yield f"{module.__name__}.excepthook"

    def _raise_of_system(self) -> bool:
        raised = False
        for each, before in self.of_system.items():
            soft, hard = resource.getrlimit(each)
            most = min(before, hard, key=_size)
            if _size(soft) < _size(most):
                resource.setrlimit(each, (most, hard))
                raised = True
        return raised


def _watched() -> tuple[Any, Any]:
    return threading.gettrace(), threading.getprofile()


def _size(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit
