"""Which process a number stands for, by procfs. Numbers are reused; together with a start time they are unique."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def start_of(pid: int) -> str | None:
    """When the process started, in the kernel's ticks; empty if it is a zombie, None if it can't be seen."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()
    state, start = after_name[0], after_name[19]
    return "" if state in "ZX" else start


def is_over(pid: int, start: str) -> bool:
    """Whether the process of that number is none, a zombie, or one that started at another time.

    Only the kernel's word counts for none: procfs may hide the processes of other users (``hidepid``).
    """
    began = start_of(pid)
    return not _exists(pid) if began is None else began != start


def variable_of(pid: int, name: str) -> str | None:
    """A variable of the environment with which the process was started; None if it has none, or none is to be seen."""
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    return next((each[len(prefix) :].decode(errors="replace") for each in variables if each.startswith(prefix)), None)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
