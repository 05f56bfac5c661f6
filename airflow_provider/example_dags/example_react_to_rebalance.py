"""A DAG that reacts to a rebalance: it waits for the next assignment, and learns what moved, from where, and why.

A second worker joins a group whose first one runs four streams. Two of them move, and a task logs which.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.assignment_epoch import AssignmentEpochSensor
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".rebalance"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108
JOB = "ticks"

with DAG("example_react_to_rebalance", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job=JOB,
        entry_point="airflow_provider.example_dags.jobs:Ticks",
        max_tasks=4,
        kind="streaming",
        kafka_conn_id=KAFKA,
    )
    first_worker, second_worker = (
        SparkWorkerOperator(
            task_id=task_id,
            group=GROUP,
            until="forever",
            slots=4,
            allowed_entry_points=["airflow_provider.example_dags.jobs"],
            checkpoint_root=f"{FOLDER}/rebalance/checkpoints",
            kafka_conn_id=KAFKA,
            retries=2,
            retry_delay=timedelta(seconds=1),
        )
        for task_id in ("first_worker", "second_worker")
    )
    runs = JobSensor(
        task_id="runs", group=GROUP, job=JOB, state="running", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    # [START howto_sensor_assignment_epoch]
    before = AssignmentEpochSensor(task_id="before", group=GROUP, at_least=1, converged=True, kafka_conn_id=KAFKA)
    rebalanced = AssignmentEpochSensor(
        task_id="rebalanced",
        group=GROUP,
        after="{{ ti.xcom_pull(task_ids='before')['epoch'] }}",
        converged=True,
        kafka_conn_id=KAFKA,
        deferrable=True,
        timeout=3600,
    )
    # [END howto_sensor_assignment_epoch]

    @task
    def react(assignment: dict[str, Any]) -> list[str]:
        """Here you would tell a router, a cache or a colleague."""
        for move in assignment["moved"]:
            print(f"{move['task']} moved from {move['from']} to {move['to']}: {move['reason']}")
        return [f"{job}:{index}" for job, index in (move["task"] for move in assignment["moved"])]

    remove = RemoveSparkJobOperator(task_id="remove", group=GROUP, job=JOB, kafka_conn_id=KAFKA)

    @task
    def stop_workers() -> list[str]:
        return SparkGroupHook(KAFKA).stop_workers(GROUP)

    submit >> [first_worker, runs]
    runs >> before >> [second_worker, rebalanced]
    reaction = react(rebalanced.output)  # type: ignore[arg-type]  # its value, when the DAG runs
    # Whatever fails before: the job is taken back and the workers, which would stay for ever, are sent home.
    reaction >> remove.as_teardown(setups=submit) >> stop_workers().as_teardown(setups=submit)
