"""Processes with all that they have started: what they cost, and their end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil


def started(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A process that runs this."""
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL; wait until all have ended."""
    tree = _tree([process.pid])
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    psutil.wait_procs(tree)


def cpu_s(pids: Iterable[int]) -> float:
    """What the processes have taken of the cores so far, with children that have ended."""
    return _sum(pids, lambda process: sum(process.cpu_times()[:4]))


def memory_mb(pids: Iterable[int]) -> float:
    return _sum(pids, lambda process: process.memory_info().rss) / 2**20


def _sum(pids: Iterable[int], figure: Callable[[psutil.Process], float]) -> float:
    """Without what has ended since it was listed, as Spark's small commands do."""
    total = 0.0
    for process in _tree(pids):
        with suppress(psutil.NoSuchProcess):
            total += figure(process)
    return total


def _tree(pids: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found
