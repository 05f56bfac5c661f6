"""A job that names its inputs and outputs. Only the worker imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider.spark.job import JobContext, SparkJob, TaskContext
from airflow_provider.spark.lineage import Dataset, Lineage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CleanTables(SparkJob):
    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{"name": table, "table": table} for table in ("orders", "items")]

    def lineage(self, task: TaskContext) -> Lineage:
        table = task.config["table"]
        return Lineage(inputs=[Dataset("s3://raw", table)], outputs=[Dataset("s3://clean", table)])

    def run(self, spark: SparkSession, task: TaskContext) -> Any:
        if task.config["table"] == "items":
            raise ValueError("no items today")
        return spark.range(3).count()
