"""A worker that submits applications to YARN; the DAG run names its group."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider.operators.spark_worker import SparkWorkerOperator

with DAG("on_yarn"):
    SparkWorkerOperator(
        task_id="w1",
        group="{{ dag_run.conf['group'] }}",
        kafka_conn_id="broker",
        group_protocol="classic",
        until="forever",
        allowed_entry_points=["airflow_provider.jobs"],
        allowed_applications=[*os.environ["COSPARK_APPLICATIONS"].split(os.pathsep), "yarn"],
        retries=5,
        retry_delay=timedelta(0),
    )
