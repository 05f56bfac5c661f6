"""Workers and jobs; the DAG run names their group."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG
from waiting import LONGEST_SESSION_S, SLOWNESS

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import Membership, SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

GROUP: dict[str, Any] = {"group": "{{ dag_run.conf['group'] }}", "kafka_conn_id": "broker"}
WORKER: dict[str, Any] = {
    **GROUP,
    "kafka_conn_id": "{{ dag_run.conf.get('connection', 'broker') }}",
    "group_protocol": "classic",
    "runner": "noop",
    "slots": "{{ dag_run.conf.get('slots', 10) }}",
    "until": "forever",
    "allowed_entry_points": ["jobs"],
    "linger": 1,
    "membership": Membership(
        session_timeout=LONGEST_SESSION_S, heartbeat_interval=1, rebalance_timeout=LONGEST_SESSION_S
    ),
    "retries": 2,
    "retry_delay": timedelta(0),
}

with DAG("two_workers"):
    for number in (1, 2):
        SparkWorkerOperator(task_id=f"w{number}", **WORKER)

with DAG("third_worker"):
    SparkWorkerOperator(task_id="w3", **WORKER)

SPARK: dict[str, Any] = {
    **WORKER,
    "runner": "local",
    "spark_master": "{{ dag_run.conf.get('master', 'local[1]') }}",
    "allowed_entry_points": "cospark_system_jobs",
}

with DAG("spark_worker"):
    SparkWorkerOperator(task_id="worker", **SPARK)

with DAG("connect_worker"):
    connect = {
        "runner": "local",
        "spark_conn_id": "spark_connect_default",
        "checkpoint_root": "{{ dag_run.conf['checkpoints'] }}",
        "allowed_entry_points": "airflow_provider.example_dags.jobs",
        "progress_interval": 1,
    }
    SparkWorkerOperator(task_id="worker", **{**WORKER, **connect})

ON_SERVER: dict[str, Any] = {
    **WORKER,
    "runner": "local",
    "spark_conn_id": "spark_connect_default",
    "spark_conf": {"spark.sql.streaming.minBatchesToRetain": 100_000},
    "allowed_entry_points": "benchmarks",
    "checkpoint_root": "{{ dag_run.conf['checkpoints'] }}",
    "progress_interval": 1,
}

with DAG("on_server"):
    for number in (1, 2):
        SparkWorkerOperator(task_id=f"w{number}", **ON_SERVER)

with DAG("brief_session"):
    # It is tried again when its session is over, also where that takes longer.
    brief = {
        "membership": replace(WORKER["membership"], session_timeout=7 * SLOWNESS),
        "retries": 1,
        "retry_delay": timedelta(seconds=10 * SLOWNESS),
        # It never defers: Airflow may count one try more if a deferred task comes back at once.
        "linger": 3_600,
    }
    SparkWorkerOperator(task_id="w3", **{**WORKER, **brief})

with DAG("until_drained"):
    SparkWorkerOperator(task_id="w1", **{**WORKER, "until": "drained"})

with DAG("bounded_job"):
    SparkJobOperator(
        task_id="submit",
        job="naps",
        entry_point="jobs:Nap",
        config={"seconds": 0.2},
        max_tasks=4,
        wait_for_completion=True,
        deferrable=True,
        **GROUP,
    )

with DAG("endless_job"):
    SparkJobOperator(
        task_id="submit",
        job="endless",
        entry_point="jobs:Endless",
        max_tasks=4,
        kind="streaming",
        wait_for_completion=True,
        **GROUP,
    )

with DAG("failing_stream"):
    SparkJobOperator(
        task_id="submit",
        job="stream",
        entry_point="jobs:Fails",
        config={"fail": "no room"},
        kind="streaming",
        task_retries=0,
        **GROUP,
    )

with DAG("failing_job"):
    (
        SparkJobOperator(
            task_id="submit",
            job="failing",
            entry_point="cospark_system_jobs:SecondFails",
            max_tasks=3,
            task_retries=1,
            task_retry_delay=0.1,
            **GROUP,
        )
        >> [
            SparkWorkerOperator(task_id="worker", **{**SPARK, "until": "drained"}),
            JobSensor(task_id="finished", job="failing", poke_interval=1, retries=3, **GROUP),
            JobSensor(task_id="failed", job="failing", state="failed", deferrable=True, **GROUP),
        ]
    )
