"""Spark jobs that the workers of tests import by name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.job import JobContext, SparkJob, TaskContext, spark_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Squares(SparkJob):
    """Adds up the squares of the numbers below ``rows``, a residue class a task; ``bad`` names one that fails."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{**job.config, "modulus": job.max_tasks, "residue": index} for index in range(job.max_tasks)]

    def run(self, spark: SparkSession, task: TaskContext) -> dict[str, Any]:
        config = task.config
        if config["residue"] == config.get("bad"):
            spark.read.parquet("/there/is/no/such/folder")
        numbers = spark.range(config["rows"]).where(f"id % {config['modulus']} = {config['residue']}")
        (row,) = numbers.selectExpr("count(*) AS rows", "sum(id * id) AS squares").collect()
        task.fence()
        return {"rows": row.rows, "squares": row.squares}


@spark_job(plan=lambda job: [{}] * (job.max_tasks + 1))
def too_many(spark: SparkSession, task: TaskContext) -> None:
    """Plans one task more than it may."""


@spark_job(plan=[])
def nothing(spark: SparkSession, task: TaskContext) -> None:
    """Finds nothing to do."""


def no_job() -> None:
    """Is not decorated."""


@spark_job(plan=lambda job: time.sleep(600) or [])
def stubborn(spark: SparkSession, task: TaskContext) -> None:
    """Plans for ever, and looks neither left nor right."""
