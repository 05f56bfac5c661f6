"""Applications of the real ``spark-submit``: how they end, and that neither their driver nor its JVM outlives them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from begun import begins_at_once
from runner_bench import SETTINGS, Events, order_of
from waiting import eventually, wait_until

from airflow_provider import example_dags
from airflow_provider.jobs import spark_applications
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.runner import TaskFailed, TaskStopped
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import PLANNER_INDEX
from airflow_provider.values.procfs import is_over, start_of

pytestmark = pytest.mark.usefixtures("spark_application")  # the runner's own; each application starts another

APPLICATIONS = Path(example_dags.__file__).parent / "applications"

FAILS = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
raise ValueError("no such day")
"""
STAYS = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
Path(sys.argv[1]).write_text(f"{os.getpid()} {os.getppid()}\\n")
time.sleep(3600)
"""
OWNER = """
import json, sys
from airflow_provider.jobs.spark_applications import SparkApplications
from airflow_provider.spark.job import TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications

folder, config = sys.argv[1:]
allowed = AllowedApplications((folder,))
task = TaskContext(
    job="owned", index=0, config=json.loads(config), epoch=1, checkpoint_location="", applications=allowed
)
SparkApplications().run(None, task)
"""

order = partial(order_of, spark_applications.__name__, "SparkApplications")


@pytest.fixture
async def runner(events: Events, tmp_path: Path) -> AsyncIterator[LocalRunner]:
    allowed = AllowedApplications((str(APPLICATIONS), str(tmp_path)))
    runner = LocalRunner(events, allowed=["airflow_provider.jobs"], settings=SETTINGS, applications=allowed)
    yield begins_at_once(runner)
    assert await runner.close() == frozenset()


async def planned(runner: LocalRunner, events: Events, **config: Any) -> list[dict[str, Any]]:
    planner = order(PLANNER_INDEX, master="local[1]", **config)
    await runner.start(planner)
    plan: Any = await events.result(planner.task)
    return [*plan]


def processes_of(file: Path) -> list[tuple[int, str]]:
    """The driver, and its JVM."""
    text = wait_until(lambda: file.read_text() if file.exists() else "")
    return [(int(pid), start_of(int(pid)) or "") for pid in text.split()]


async def test_the_applications_of_the_example_run_in_their_order(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    totals = {"application": f"{APPLICATIONS}/totals.py", "args": ["east", str(tmp_path)], "after": ["east"]}
    east = {"name": "east", "application": f"{APPLICATIONS}/sales.py", "args": ["east", 500, str(tmp_path)]}
    (task,) = await planned(runner, events, applications=[totals, east], conf={"spark.sql.shuffle.partitions": 1})
    started = order(0, **task)
    await runner.start(started)
    result: Any = await events.result(started.task)
    assert result["applications"] == ["east", "totals"]
    assert (tmp_path / "east" / "_SUCCESS").exists()


async def test_an_error_of_its_python_is_that_of_the_task(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(FAILS)
    (task,) = await planned(runner, events, application=f"{tmp_path}/fails.py")
    started = order(0, **task)
    await runner.start(started)
    failed = await events.last(started.task)
    assert isinstance(failed, TaskFailed), failed
    assert failed.error.startswith("ValueError: no such day")
    assert "the application fails has ended with exit code 1" in failed.error
    assert failed.retryable


async def test_a_task_that_is_stopped_takes_its_driver_and_its_jvm_with_it(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    (tmp_path / "stays.py").write_text(STAYS)
    (task,) = await planned(runner, events, application=f"{tmp_path}/stays.py", args=[f"{tmp_path}/pids"])
    started = order(0, **task)
    await runner.start(started)
    await eventually((tmp_path / "pids").exists)
    driver, jvm = processes_of(tmp_path / "pids")
    assert await runner.stop([started.task], "revoked") == frozenset()
    assert isinstance(await events.last(started.task), TaskStopped)
    assert is_over(*driver)
    assert is_over(*jvm)


def test_a_killed_worker_takes_its_driver_and_its_jvm_with_it(tmp_path: Path) -> None:
    (tmp_path / "stays.py").write_text(STAYS)
    application = {"name": "stays", "application": f"{tmp_path}/stays.py", "args": [f"{tmp_path}/pids"]}
    config = json.dumps({"applications": [{**application, "master": "local[1]"}]})
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), config]) as owner:
        driver, jvm = processes_of(tmp_path / "pids")
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: is_over(*driver) and is_over(*jvm))
