"""A batch job, spread over workers: submitted, run by a group of three, waited for.

The workers leave when the group is drained. Kill one while it works: its tasks wait for its retry.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".batch"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108

# [START howto_batch_dag]
with DAG("example_batch_group", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job="count_by_digit",
        entry_point="airflow_provider.example_dags.jobs:CountByDigit",
        config={"rows": 1_000_000, "output": f"{FOLDER}/batch"},
        max_tasks=8,
        task_retries=1,
        kafka_conn_id=KAFKA,
    )

    workers = SparkWorkerOperator.partial(
        task_id="worker",
        group=GROUP,
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        spark_master="local[1]",
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    ).expand(slots=[1, 1, 2])

    counted = JobSensor(
        task_id="counted", group=GROUP, job="count_by_digit", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    submit >> [workers, counted]
# [END howto_batch_dag]
