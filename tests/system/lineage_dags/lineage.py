"""A worker whose Spark tasks are reported to OpenLineage."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator

GROUP: dict[str, Any] = {"group": "{{ dag_run.conf['group'] }}", "kafka_conn_id": "broker"}

with DAG("lineage", schedule=None):
    submit = SparkJobOperator(
        task_id="submit", job="clean", entry_point="lineage_jobs:CleanTables", max_tasks=2, **GROUP
    )
    submit >> SparkWorkerOperator(
        task_id="worker",
        allowed_entry_points=["lineage_jobs"],
        spark_master="local[1]",
        spark_conf={"spark.ui.enabled": "false"},
        **GROUP,
    )
