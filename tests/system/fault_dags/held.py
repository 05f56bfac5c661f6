"""Workers that are deferred most of the time; the DAG run names their group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG
from waiting import LONGEST_SESSION_S, SLOWNESS

from airflow_provider.operators.spark_worker import SparkWorkerOperator

WORKER: dict[str, Any] = {
    "group": "{{ dag_run.conf['group'] }}",
    "kafka_conn_id": "broker",
    "group_protocol": "classic",
    "runner": "noop",
    "slots": 10,
    "until": "forever",
    "allowed_entry_points": ["jobs"],
    "linger": 1,
    "heartbeat_interval": 1,
    "session_timeout": LONGEST_SESSION_S,
    "rebalance_timeout": LONGEST_SESSION_S,
    "retries": 2,
    "retry_delay": timedelta(0),
}

with DAG("held"):
    SparkWorkerOperator(task_id="w1", **WORKER)

with DAG("held_shortly"):
    SparkWorkerOperator(task_id="w1", **{**WORKER, "session_timeout": 7 * SLOWNESS})
