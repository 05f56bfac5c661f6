"""Workers that are deferred most of the time; the DAG run names their group."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG
from waiting import LONGEST_SESSION_S, SLOWNESS

from airflow_provider.operators.spark_worker import Membership, SparkWorkerOperator

WORKER: dict[str, Any] = {
    "group": "{{ dag_run.conf['group'] }}",
    "kafka_conn_id": "broker",
    "group_protocol": "classic",
    "runner": "noop",
    "slots": 10,
    "until": "forever",
    "allowed_entry_points": ["jobs"],
    "linger": 1,
    "membership": Membership(
        session_timeout=LONGEST_SESSION_S, heartbeat_interval=1, rebalance_timeout=LONGEST_SESSION_S
    ),
    "retries": 2,
    "retry_delay": timedelta(0),
}

with DAG("held"):
    SparkWorkerOperator(task_id="w1", **WORKER)

with DAG("held_shortly"):
    shorter = replace(WORKER["membership"], session_timeout=15 * SLOWNESS)
    SparkWorkerOperator(task_id="w1", **{**WORKER, "membership": shorter})
