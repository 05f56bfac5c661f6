"""The memory of a worker's JVM under many short Spark tasks. ``python -m benchmarks short_tasks``.

One local runner runs two tasks at a time, each with a session, a shuffle and a Python function. After each hundred: the
JVM's memory in use after a full collection, its resident memory, and counts of objects that may have been left behind.
For comparison the same in another process, with Spark's default limits for what a UI shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.driver_jvm.jvm import present_jvm
from airflow_provider.spark.runner import LastEvent, RunnerEvent, TaskFinished, TaskOrder, TaskStarted
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, TaskId

_ROOT: Final = Path(__file__).parent.parent
_TASKS: Final = 500
_EVERY: Final = 100
_SLOTS: Final = 2
SPARKS_OWN: Final = {
    "spark.ui.retainedJobs": "1000",
    "spark.ui.retainedStages": "1000",
    "spark.ui.retainedTasks": "100000",
    "spark.sql.ui.retainedExecutions": "1000",
}
"""Spark's defaults, with or without a UI."""


@spark_job
def short(spark: Any, task: TaskContext) -> int:
    from pyspark.sql.functions import udf

    seventh = udf(lambda value: value % 7, "long")
    rows = spark.range(task.index, task.index + 10_000, numPartitions=2).withColumn("key", seventh("id"))
    rows.createOrReplaceTempView("numbers")
    return len(spark.sql("SELECT key, count(*), sum(id) FROM numbers GROUP BY key").collect())


def run(_folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures, in megabytes."""
    figures = {name: _measured(name) for name in ("ours", "sparks_own")}
    for name, points in figures.items():
        print(name)
        for point in points:
            print("  " + ", ".join(f"{key} {value}" for key, value in point.items()), flush=True)
    return figures


def _measured(name: str) -> list[dict[str, float]]:
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.short_tasks", name],
        check=True,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        timeout=1_800,
    )
    points: list[dict[str, float]] = json.loads(told.stdout.splitlines()[-1])
    return points


async def _tasks(conf: dict[str, str]) -> list[dict[str, float]]:
    ended: asyncio.Queue[RunnerEvent] = asyncio.Queue()

    def heard(event: RunnerEvent) -> None:
        if isinstance(event, TaskStarted):
            runner.proceed(event.order.task)
        elif isinstance(event, LastEvent):
            ended.put_nowait(event)

    settings = LocalSparkSettings(master=f"local[{_SLOTS}]", conf=conf)
    runner = LocalRunner(heard, allowed=["benchmarks"], settings=settings)
    points = []
    for first in range(0, _TASKS, _EVERY):
        for index in range(first, first + _EVERY):
            if len(runner.running) == _SLOTS:
                _check(await ended.get())
            await runner.start(
                TaskOrder(task=TaskId("short", index), entry_point="benchmarks.short_tasks:short", epoch=Epoch(1))
            )
        while runner.running or not ended.empty():
            _check(await ended.get())
        points.append({"tasks": first + _EVERY, **await asyncio.to_thread(_state)})
    await runner.close()
    return points


def _check(event: RunnerEvent) -> None:
    if not isinstance(event, TaskFinished):
        raise RuntimeError(f"instead of an end: {event}")


def _state() -> dict[str, float]:
    import gc

    from pyspark import SparkContext

    gc.collect()
    context = SparkContext.getOrCreate()
    jvm: Any = context._jvm  # noqa: SLF001
    java = jvm.java
    memory = java.lang.management.ManagementFactory.getMemoryMXBean()
    for _ in range(2):
        memory.gc()
    store = context._jsc.sc().statusStore()  # noqa: SLF001
    return {
        "heap_mb": round(memory.getHeapMemoryUsage().getUsed() / 2**20, 1),
        "beside_heap_mb": round(memory.getNonHeapMemoryUsage().getUsed() / 2**20, 1),
        "resident_mb": _resident_mb(int(present_jvm().partition("/")[0])),
        "classes": java.lang.management.ManagementFactory.getClassLoadingMXBean().getLoadedClassCount(),
        "jobs_kept": store.jobsList(None).size(),
        "listeners": context._jsc.sc().listenerBus().listeners().size(),  # noqa: SLF001
        "threads": java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount(),
    }


def _resident_mb(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_tasks({} if sys.argv[1:] == ["ours"] else SPARKS_OWN))))
