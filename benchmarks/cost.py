"""What a worker costs compared with plain PySpark, and what it saves compared with an Airflow task for each Spark job.

The same twelve months of flights, in one run: by a plain PySpark script (one session, two threads), by one worker with
two slots, and by twelve mapped Airflow tasks that each start a session (two at a time).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition
from demo.airflow import LocalAirflow
from demo.data import lay_out

_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parent
_COSPARK: Final = (sys.executable, "-m", "airflow_provider.cli.main")
_REPEATS: Final = 3


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures: seconds of wall time, and ratios of medians."""
    source = folder / "input"
    lay_out(source)
    plain, worker = [], []
    with LocalBroker() as broker:
        for number in range(_REPEATS):
            plain.append(_timed([sys.executable, "-m", "benchmarks.plain", str(source), str(folder / "plain")]))
            print(f"plain PySpark script: {plain[-1]:.1f} s", flush=True)
            worker.append(_worker(broker, f"bench-{number}", source, folder / "worker"))
            print(f"one worker:           {worker[-1]:.1f} s", flush=True)
        mapped, in_airflow = _airflow(broker, folder, source)
    figures = {
        "plain_s": plain,
        "worker_s": worker,
        "mapped_s": mapped,
        "worker_in_airflow_s": in_airflow,
        "worker_over_plain": statistics.median(worker) / statistics.median(plain),
        "mapped_over_worker": mapped / statistics.median(worker),
        "mapped_over_worker_in_airflow": mapped / in_airflow,
    }
    print(
        f"\none worker / plain script: {figures['worker_over_plain']:.2f} (goal: at most 1.1)\n"
        f"twelve mapped Airflow tasks / one worker: {figures['mapped_over_worker']:.1f} (goal: at least 6)\n"
        f"the same with the worker in Airflow, too: {figures['mapped_over_worker_in_airflow']:.1f}"
    )
    return figures


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    return time.monotonic() - began


def _worker(broker: LocalBroker, group: str, source: Path, output: Path) -> float:
    config = {"source": str(source), "output": str(output)}
    asyncio.run(_submit(broker, group, config))
    return _timed(
        [
            *(*_COSPARK, "worker", group, "--worker", "only", "--until", "drained", "--slots", "2"),
            *("--allow", "benchmarks", "--bootstrap-servers", broker.bootstrap_servers),
        ]
    )


async def _submit(broker: LocalBroker, group: str, config: dict[str, str]) -> None:
    settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="bench")
    async with shared_topics(settings, group, WORKER) as topics:
        await topics.submit(
            JobDefinition(name="months", entry_point="benchmarks.jobs:months", config=config, max_tasks=12)
        )


def _airflow(broker: LocalBroker, folder: Path, source: Path) -> tuple[float, float]:
    """From the first task's start to the last one's end, so without Airflow's own start and scheduling of the first."""
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    airflow = LocalAirflow(
        folder / f"airflow-{os.getpid()}",
        dag_folders=[_HERE / "dags"],
        connections={"kafka_default": json.dumps(connection)},
        env={"BENCH_SOURCE": str(source), "BENCH_OUTPUT": str(folder), "PYTHONPATH": str(_ROOT)},
    )
    with airflow:
        in_airflow = dag_seconds(airflow, "one_worker")
        print(f"one worker in Airflow: {in_airflow:.1f} s", flush=True)
        mapped = dag_seconds(airflow, "mapped")
        print(f"twelve mapped tasks in Airflow: {mapped:.1f} s", flush=True)
    return mapped, in_airflow


def dag_seconds(airflow: LocalAirflow, dag: str) -> float:
    airflow.api.wait_for_dag(dag)
    airflow.api.unpause(dag)
    run = airflow.api.trigger(dag)
    state = airflow.api.wait_for_run(dag, run)
    if state != "success":
        raise RuntimeError(f"DAG {dag} ended {state}")
    ran = airflow.api.task_instances(dag, run)
    ends = [instance.end_date for instance in ran if instance.end_date is not None]
    starts = [instance.start_date for instance in ran if instance.start_date is not None]
    return (max(ends) - min(starts)).total_seconds()
