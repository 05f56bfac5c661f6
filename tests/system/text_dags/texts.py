"""What waits for jobs that say the worst, and what hears of each of their tasks."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, AssetWatcher, task
from waiting import LONGEST_SESSION_S

from airflow_provider.operators.spark_worker import Membership, SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor
from airflow_provider.triggers.group_event import GroupEventTrigger

GROUP: dict[str, Any] = {"group": os.environ["COSPARK_TEXTS_GROUP"], "kafka_conn_id": "broker"}
WAITS: dict[str, Any] = {**GROUP, "run_key": None, "deferrable": True}

with DAG("texts"):
    SparkWorkerOperator(
        task_id="worker",
        worker="speaker",
        spark_master="local[1]",
        slots=20,
        until="forever",
        allowed_entry_points=["text_jobs"],
        linger=1,
        membership=Membership(
            session_timeout=LONGEST_SESSION_S, heartbeat_interval=1, rebalance_timeout=LONGEST_SESSION_S
        ),
        **GROUP,
    )
    says = JobSensor(task_id="says", job="says", **WAITS)
    writes = JobSensor(task_id="writes", job="writes", outlets=[AssetAlias("written")], **WAITS)

    @task(trigger_rule="all_done")
    def reads(ti: Any = None) -> int:
        """What is in the database must also come out of it."""
        return sum(len(ti.xcom_pull(told)["results"]) for told in ("says", "writes"))

    [says, writes] >> reads()

failures = Asset(
    "failures",
    watchers=[
        AssetWatcher(name="failures", trigger=GroupEventTrigger(name="failures", events=["task_failed"], **GROUP))
    ],
)

with DAG("hears", schedule=failures, max_active_runs=1):
    EmptyOperator(task_id="hears")
