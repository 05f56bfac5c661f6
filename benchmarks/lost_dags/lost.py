"""A worker that stays, and one that is lost in different ways, with the operator's defaults for everything else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider.operators.spark_worker import SparkWorkerOperator

WORKER: dict[str, Any] = {
    "task_id": "worker",
    "group": "lost",
    "until": "forever",
    "slots": 4,
    "allowed_entry_points": "benchmarks",
}

with DAG("stays", schedule=None):
    SparkWorkerOperator(**WORKER)

with DAG("lost", schedule=None):
    SparkWorkerOperator(retries=3, retry_delay=timedelta(seconds=1), **WORKER)

with DAG("lost_for_good", schedule=None):
    SparkWorkerOperator(**WORKER)
