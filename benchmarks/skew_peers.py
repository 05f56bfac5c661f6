"""Peers for tasks that differ by factors of a hundred: threads of one Spark script, and mapped Airflow tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.cost import dag_seconds
from demo.airflow import LocalAirflow

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The times of a script.

    :param start_s: until Spark had done something
    :param tasks_s: from then to the end of the last task
    """

    start_s: float
    tasks_s: float


def script(times_s: Sequence[float], slots: int) -> Script:
    """Run a script with a thread for each slot."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.skew_script", str(slots)],
        input=json.dumps(times_s),
        text=True,
        check=True,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=600,
    )
    return Script(**json.loads(done.stdout.splitlines()[-1]))


def mapped_s(times_s: Sequence[float], slots: int, folder: Path) -> float:
    """Run each as a mapped Airflow task, so many at a time; returns the time from the first start to the last end."""
    airflow = LocalAirflow(
        folder / f"airflow-{os.getpid()}",
        dag_folders=[_HERE / "skew_dags"],
        connections={},
        env={"BENCH_SECONDS": json.dumps(times_s), "BENCH_SLOTS": str(slots), "PYTHONPATH": str(_ROOT)},
    )
    with airflow:
        return dag_seconds(airflow, "skewed")
