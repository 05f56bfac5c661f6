"""Resources that each process has for itself, also a forked one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Holds the resources that this process has opened.

    A forked process has a copy of the Kafka clients' memory, but not their threads. So it may neither use nor destroy
    them, and starts with nothing open.

    :param make: makes an empty container
    :ivar own: this process's container
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.own = make()
        os.register_at_fork(after_in_child=self.start_over)

    def start_over(self) -> None:
        """Start with an empty container in a forked process.

        The former one is never destroyed, because of an additional reference; not even when the interpreter clears all
        modules at the end of the process.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.own))
        self.own = self._make()
