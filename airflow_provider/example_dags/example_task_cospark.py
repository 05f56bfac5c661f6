"""A function of the DAG file is a job: two workers share its Spark tasks, and what they return is added up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

if TYPE_CHECKING:
    from airflow_provider.spark.job import TaskContext

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".task_cospark"


# [START howto_task_cospark]
@task.cospark(group=GROUP, kafka_conn_id=KAFKA, workers=2, worker_args={"spark_master": "local[1]"})
def sevens(spark: Any, part: TaskContext) -> Any:
    return spark.range(part.config["start"], part.config["end"]).where("id % 10 = 7").count()


with DAG("example_task_cospark", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    counted = sevens.expand(config=[{"start": 250_000 * n, "end": 250_000 * (n + 1)} for n in range(4)])

    @task
    def add_up(report: Any) -> Any:
        return sum(report["results"].values())

    add_up(counted)
# [END howto_task_cospark]
