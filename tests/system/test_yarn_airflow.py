"""An application on a real YARN, submitted by a worker in a real Airflow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from airflow_group import Group
from real_yarn import RealYarn
from waiting import wait_until

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.values.model import TaskId
from demo.airflow import LocalAirflow

pytestmark = pytest.mark.thorough

TASK = TaskId("nightly", 0)
DRIVER = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
folder = Path(sys.argv[1])
(folder / "driver").write_text(str(os.getppid()))
while not (folder / "go").exists():
    time.sleep(0.1)
"""


def test_it_survives_triggerer_scheduler_and_worker_and_is_submitted_once(
    start_airflow: Callable[..., LocalAirflow], broker: LocalBroker, tmp_path: Path
) -> None:
    """With the scheduler, all running tasks end. Airflow tries them again, by default when it looks for them after 5
    minutes.
    """
    (tmp_path / "etl.py").write_text(DRIVER)
    extra = {"bootstrap.servers": broker.bootstrap_servers}
    with RealYarn() as yarn:
        airflow = start_airflow(
            [Path(__file__).parent / "yarn_dags"],
            connections={"broker": json.dumps({"conn_type": "kafka", "extra": extra})},
            env={
                "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
                "HADOOP_CONF_DIR": str(yarn.conf),
                "COSPARK_APPLICATIONS": os.pathsep.join(map(str, (tmp_path, yarn.folder))),
            },
        )
        with closing(Group(airflow, broker.bootstrap_servers)) as group:
            run = group.start("on_yarn")
            group.submit(
                TASK.job,
                tasks=1,
                entry_point="airflow_provider.jobs.spark_applications:SparkApplications",
                kind=TaskKind.BATCH,
                application=f"{tmp_path}/etl.py",
                args=[str(tmp_path)],
                master="yarn",
                deploy_mode="cluster",
                properties_file=str(yarn.properties),
            )
            begun = tmp_path / "driver"
            driver = psutil.Process(int(wait_until(lambda: begun.read_text() if begun.exists() else None)))

            airflow.kill_triggerer()
            airflow.start_triggerer()
            airflow.kill_scheduler()
            airflow.start_scheduler()
            runs(group, attempt=2)
            os.kill(group.api.running_pid(group.api.task_instance("on_yarn", run, "w1")), 9)
            runs(group, attempt=3)
            assert driver.is_running()

            (tmp_path / "go").touch()
            seen = group.wait_for(lambda seen: seen.status.tasks[TASK].state is TaskState.FINISHED, "it has succeeded")
            assert (seen.status.tasks[TASK].attempt, seen.status.tasks[TASK].failures) == (3, 0)
            assert [app["finalStatus"] for app in yarn.applications()] == ["SUCCEEDED"], "it was submitted once"
            group.stop_workers()
            group.api.wait_for_run("on_yarn", run)


def runs(group: Group, *, attempt: int) -> None:
    group.wait_for(
        lambda seen: (
            TASK in seen.status.tasks
            and (seen.status.tasks[TASK].state, seen.status.tasks[TASK].attempt) == (TaskState.RUNNING, attempt)
        ),
        f"it runs, as attempt {attempt}",
    )
