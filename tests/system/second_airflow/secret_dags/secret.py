"""Workers, sensors and jobs on a broker that requires a password."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

SECURED: dict[str, Any] = {"group": "secret", "kafka_conn_id": "secured"}
REFUSED: dict[str, Any] = {"group": "secret", "kafka_conn_id": "refused"}
WORKER: dict[str, Any] = {
    "task_id": "worker",
    "group_protocol": "classic",
    "runner": "noop",
    "until": "drained",
    "allowed_entry_points": ["jobs"],
    "linger": 0.5,
}
JOB: dict[str, Any] = {
    "task_id": "submit",
    "job": "naps",
    "entry_point": "jobs:Nap",
    "config": {"seconds": 0.2},
    "max_tasks": 2,
    "wait_for_completion": True,
}

with DAG("secret_worker"):
    SparkWorkerOperator(**WORKER, **SECURED)
    JobSensor(task_id="deferred", job="naps", run_key=None, deferrable=True, **SECURED)

with DAG("secret_job"):
    SparkJobOperator(deferrable=True, **JOB, **SECURED) >> JobSensor(task_id="poking", job="naps", **SECURED)

with DAG("secret_refused"):
    SparkWorkerOperator(**WORKER, **REFUSED)
    SparkJobOperator(**JOB, **REFUSED)
    JobSensor(task_id="deferred", job="naps", deferrable=True, **REFUSED)
    JobSensor(task_id="poking", job="naps", **REFUSED)
