"""What each process has of its own, also one that was forked."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Keeps what a process has opened. A forked one has the memory of Kafka's clients, but not their threads: it may
    neither use nor destroy them, and begins with nothing.

    :param make: makes what has nothing open
    :ivar own: this process's
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.own = make()
        os.register_at_fork(after_in_child=self.start_over)

    def start_over(self) -> None:
        """Leave what there is alone: at the end of the process too, when the interpreter clears all modules. One
        reference too many keeps it from that.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.own))
        self.own = self._make()
