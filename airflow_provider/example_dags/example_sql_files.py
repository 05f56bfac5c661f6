"""A folder of SQL files, run by two workers. No job has to be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider.jobs.sql_files import SqlFiles
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".sql_files"

# [START howto_sql_files]
with DAG("example_sql_files", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    sales = SparkJobTaskGroup(
        "sales",
        entry_point=SqlFiles,
        config={
            "folder": str(Path(__file__).parent / "sql"),
            "parameters": {"sales": 50_000, "shops": 3, "run": "{{ run_id }}"},
        },
        group=GROUP,
        kafka_conn_id=KAFKA,
        submit_args={"task_retries": 1},
        worker_args={"spark_master": "local[1]"},
    )

    @task
    def add_up(report: Any) -> dict[str, Any]:
        return {"statements": sum(result["statements"] for result in report["results"].values())}

    add_up(sales.output)
# [END howto_sql_files]
