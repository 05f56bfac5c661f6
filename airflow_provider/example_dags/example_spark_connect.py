"""A batch job whose tasks run on a Spark Connect server: its workers need no Java, and start in no time.

To try it: ``cospark spark-connect --port 15002`` starts a server and says what the connection is.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".connect"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108

# [START howto_connect_dag]
with DAG("example_spark_connect", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job="count_by_digit",
        entry_point="airflow_provider.example_dags.jobs:CountByDigit",
        config={"rows": 1_000_000, "output": f"{FOLDER}/connect"},
        max_tasks=4,
        task_retries=1,
        kafka_conn_id=KAFKA,
    )

    workers = SparkWorkerOperator.partial(
        task_id="worker",
        group=GROUP,
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        spark_conn_id="spark_connect_default",
        spark_conf={"spark.sql.shuffle.partitions": 4},
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    ).expand(slots=[1, 2])

    counted = JobSensor(
        task_id="counted", group=GROUP, job="count_by_digit", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    submit >> [workers, counted]
# [END howto_connect_dag]
