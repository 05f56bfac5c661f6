"""What streams take of an Airflow: running task instances, and memory of processes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import psutil

from demo.airflow import LocalAirflow
from demo.airflow_api import TaskInstance

_MB: Final = 2**20
_TRIGGERER: Final = re.compile(r"triggerer-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Memory is in MB; memory that processes share is counted once.

    :param running: task instances that have a slot
    :param jvms: the number of the workers' JVMs
    :param worker_mb: of these task instances' processes, their supervisors and JVMs
    :param triggerer_mb: of all processes of the triggerer
    """

    running: int
    jvms: int
    worker_mb: float
    triggerer_mb: float

    def to_json(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "jvms": self.jvms,
            "worker_mb": round(self.worker_mb),
            "triggerer_mb": round(self.triggerer_mb),
        }


def footprint(airflow: LocalAirflow, workers: Iterable[TaskInstance]) -> Footprint:
    """:param workers: their task instances, as they are now"""
    pids = [worker.pid for worker in workers if worker.state == "running" and worker.pid is not None]
    processes = [each for pid in pids for each in _tree(psutil.Process(pid).parent())]
    triggerer = next(kept for name, kept in airflow.processes.items() if _TRIGGERER.fullmatch(name))
    return Footprint(
        running=len(pids),
        jvms=sum(map(_is_jvm, processes)),
        worker_mb=_memory_mb(processes),
        triggerer_mb=_memory_mb(triggerer.tree()),
    )


def load() -> float:
    return round(os.getloadavg()[0], 1)


def _tree(process: psutil.Process | None) -> list[psutil.Process]:
    return [] if process is None else [process, *process.children(recursive=True)]


def _memory_mb(processes: Iterable[psutil.Process]) -> float:
    return sum(_memory(each) for each in processes) / _MB


def _memory(process: psutil.Process) -> float:
    """In bytes; 0 if the process has ended since it was listed, as Spark's small commands do."""
    try:
        return float(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0.0


def _is_jvm(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "java")
    except psutil.NoSuchProcess:
        return False
