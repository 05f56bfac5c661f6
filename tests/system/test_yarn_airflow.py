"""Applications on a real YARN, submitted by a worker in a real Airflow, and watched by its triggerer."""

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

from airflow_provider.cli.main import main
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.values.model import TaskId
from demo.airflow import LocalAirflow

pytestmark = pytest.mark.thorough

NIGHTLY, HOURLY = TaskId("nightly", 0), TaskId("hourly", 0)
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


def test_drivers_need_no_process_of_airflow_survive_it_are_submitted_once_and_are_killed_by_the_triggerer(
    start_airflow: Callable[..., LocalAirflow], broker: LocalBroker, tmp_path: Path
) -> None:
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
            nightly = submitted(group, yarn, tmp_path, NIGHTLY)
            group.deferred("on_yarn", run, "w1")
            assert nightly.is_running()

            airflow.kill_triggerer()
            airflow.start_triggerer()
            airflow.kill_scheduler()
            airflow.start_scheduler()
            deferred = group.deferred("on_yarn", run, "w1")
            assert nightly.is_running()

            (tmp_path / NIGHTLY.job / "go").touch()
            seen = group.wait_for(
                lambda seen: seen.status.tasks[NIGHTLY].state is TaskState.FINISHED, "it has succeeded"
            )
            done = seen.status.tasks[NIGHTLY]
            assert isinstance(done.result, dict)
            assert done.result["applications"] == ["etl"]
            assert (done.attempt, done.failures) == (1, 0)
            assert [app["finalStatus"] for app in yarn.applications()] == ["SUCCEEDED"], "it was submitted once"
            after = group.deferred("on_yarn", run, "w1")
            assert after.trigger_id == deferred.trigger_id, "no process was needed for its end"

            hourly = submitted(group, yarn, tmp_path, HOURLY)
            deferred = group.deferred("on_yarn", run, "w1")
            assert main(["jobs", "stop", group.name, HOURLY.job, "--bootstrap-servers", broker.bootstrap_servers]) == 0
            group.wait_for(lambda seen: seen.status.tasks[HOURLY].state is TaskState.STOPPED, "its task has stopped")
            assert sorted(app["finalStatus"] for app in yarn.applications()) == ["KILLED", "SUCCEEDED"]
            wait_until(lambda: not hourly.is_running())
            after = group.deferred("on_yarn", run, "w1")
            assert after.trigger_id == deferred.trigger_id, "the triggerer has killed it"
            group.stop_workers()
            group.api.wait_for_run("on_yarn", run)


def submitted(group: Group, yarn: RealYarn, folder: Path, task: TaskId) -> psutil.Process:
    """The driver of a job, which waits in a folder of its own."""
    own = folder / task.job
    own.mkdir()
    group.submit(
        task.job,
        tasks=1,
        entry_point="airflow_provider.jobs.spark_applications:SparkApplications",
        kind=TaskKind.BATCH,
        application=f"{folder}/etl.py",
        args=[str(own)],
        master="yarn",
        deploy_mode="cluster",
        properties_file=str(yarn.properties),
    )
    begun = own / "driver"
    return psutil.Process(int(wait_until(lambda: begun.read_text() if begun.exists() else None)))
