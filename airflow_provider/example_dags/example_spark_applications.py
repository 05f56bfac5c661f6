"""Applications of spark-submit, run by two workers. No job has to be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider.jobs.spark_applications import SparkApplications
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".spark_applications"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108
APPLICATIONS = str(Path(__file__).parent / "applications")

# [START howto_spark_applications]
with DAG("example_spark_applications", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    sales = SparkJobTaskGroup(
        "sales",
        entry_point=SparkApplications,
        config={
            "master": "local[1]",
            "conf": {"spark.driver.memory": "512m", "spark.sql.shuffle.partitions": 2},
            "application": f"{APPLICATIONS}/sales.py",
            "applications": [
                {"name": "east", "args": ["east", 50_000, f"{FOLDER}/applications"]},
                {"name": "west", "args": ["west", 20_000, f"{FOLDER}/applications"]},
                {
                    "application": f"{APPLICATIONS}/totals.py",
                    "args": ["west", f"{FOLDER}/applications"],
                    "after": ["west"],
                },
            ],
        },
        group=GROUP,
        kafka_conn_id=KAFKA,
        submit_args={"task_retries": 1},
        worker_args={"allowed_applications": [APPLICATIONS]},
    )

    @task
    def list_submitted(report: Any) -> list[str]:
        return sorted(name for result in report["results"].values() for name in result["applications"])

    list_submitted(sales.output)
# [END howto_spark_applications]
