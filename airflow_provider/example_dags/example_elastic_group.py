"""A group that grows and shrinks with its work: a DAG looks at it every minute, and adds a worker while tasks wait for
slots, or removes one whose slots nothing needs. Each worker is a run of another DAG.

To try it: unpause both DAGs, and submit jobs to the group (``cospark jobs submit``).
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, task

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.scale_spark_group import ScaleSparkGroupOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".elastic"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108
SLOTS = 2
MOST_WORKERS = 8

# [START howto_elastic_worker]
with DAG(
    "example_elastic_worker",
    schedule=None,
    catchup=False,
    max_active_runs=MOST_WORKERS,
    tags=["example", "cospark"],
):
    SparkWorkerOperator(
        task_id="worker",
        group=GROUP,
        worker="{{ run_id | replace(':', '-') | replace('+', '-') }}",  # each run is a worker of its own
        slots=SLOTS,
        until="forever",
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        checkpoint_root=f"{FOLDER}/elastic/checkpoints",
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
# [END howto_elastic_worker]

# [START howto_elastic_group]
with DAG(
    "example_elastic_group",
    schedule=timedelta(minutes=1),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=["example", "cospark"],
):

    @task.branch
    def look(ti: Any = None) -> str | None:
        """Add a worker if tasks have waited for a minute for slots. Remove one if nothing needs so many slots."""
        room = SparkGroupHook(KAFKA).room(GROUP, waited_s=60)
        print(room.in_words)
        started = ti.get_dr_count("example_elastic_worker", states=["queued", "running"])
        on_their_way = max(0, started - room.workers)
        if room.lacking > on_their_way * SLOTS:
            return "add_worker" if started < MOST_WORKERS else None
        if room.spare >= SLOTS and room.workers > 1 and not room.lacking and not on_their_way:
            ti.xcom_push("workers", room.workers - 1)
            return "remove_worker"
        return None

    add_worker = TriggerDagRunOperator(task_id="add_worker", trigger_dag_id="example_elastic_worker")

    remove_worker = ScaleSparkGroupOperator(
        task_id="remove_worker",
        group=GROUP,
        workers="{{ ti.xcom_pull(task_ids='look', key='workers') }}",
        within=timedelta(minutes=10),  # then it stops what it still runs: a stream would never end
        wait_for_completion=False,
        kafka_conn_id=KAFKA,
    )

    look() >> [add_worker, remove_worker]
# [END howto_elastic_group]
