"""A batch job in one task group: it is submitted, run by two workers and waited for, and its results are added up."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider.task_groups.spark_job import SparkJobTaskGroup

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".task_group"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108

# [START howto_task_group]
with DAG("example_job_task_group", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    counted = SparkJobTaskGroup(
        "count_by_digit",
        entry_point="airflow_provider.example_dags.jobs:CountByDigit",
        config={"rows": 1_000_000, "output": f"{FOLDER}/task_group"},
        group=GROUP,
        kafka_conn_id=KAFKA,
        submit_args={"max_tasks": 4, "task_retries": 1},
        worker_args={"spark_master": "local[1]"},
    )

    @task
    def add_up(report: Any) -> dict[str, Any]:
        return {"rows": sum(result["rows"] for result in report["results"].values())}

    add_up(counted.output)
# [END howto_task_group]
