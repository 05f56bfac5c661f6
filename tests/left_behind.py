"""Where a test that failed leaves what people need to find out why."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Protocol

import psutil

SIDE_BY_SIDE: Final = ContextVar[str]("SIDE_BY_SIDE")
"""The id of the test whose body this thread runs, while pytest waits for another one."""
FOLDER: Final = "COSPARK_LEFT_BEHIND"
"""The environment variable that names the folder for all tests of a run."""
_ROOT: Final = Path(__file__).parents[1]
_LONGEST_NAME: Final = 120


def folder_of(test: str) -> Path:
    """The folder of one test, made if it is missing.

    :param test: the test's id
    """
    kept = Path(os.environ.get(FOLDER) or _ROOT / "build" / "failed" / f"pytest-{os.getpid()}")
    folder = kept / re.sub(r"[^\w.-]+", "-", test.rpartition("/")[2])[:_LONGEST_NAME]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def current_test() -> str:
    """The id of the test that this thread runs."""
    return SIDE_BY_SIDE.get("") or os.environ.get("PYTEST_CURRENT_TEST", "unknown").partition(" ")[0]


def keep_logs(folder: Path, test: str) -> None:
    """Copy the logs in a test's own folder.

    :param test: the test's id
    """
    for log in folder.rglob("*.log"):
        kept = folder_of(test) / log.relative_to(folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, kept)


class Started(Protocol):
    """A process that a test has started."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


def states(processes: Mapping[str, Started]) -> str:
    """A line for each process: whether and how it runs, or how it has ended."""
    return "\n".join(f"{name}: {_state(process)}" for name, process in processes.items())


def _state(process: Started) -> str:
    ended = process.poll()
    if ended is not None:
        return f"has ended with {ended}"
    try:
        return line_of(psutil.Process(process.pid))
    except psutil.NoSuchProcess:
        return "has just ended"


def line_of(process: psutil.Process) -> str:
    """What the system says of a process that runs.

    :raises psutil.NoSuchProcess: it has ended
    """
    with process.oneshot():
        used = process.cpu_times()
        return (
            f"pid {process.pid} is {process.status()}, has used {used.user + used.system:.1f} s of a core:"
            f" {' '.join(process.cmdline())[:200]}"
        )
