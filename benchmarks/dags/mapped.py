"""Both ways in one Airflow: a worker that runs twelve tasks, and twelve mapped tasks that each start a session."""

from __future__ import annotations

import os

from airflow.sdk import DAG, task

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from benchmarks.jobs import MONTHS, do_month

SOURCE, OUTPUT = os.environ["BENCH_SOURCE"], os.environ["BENCH_OUTPUT"]

with DAG("one_worker", schedule=None):
    SparkJobOperator(
        task_id="submit",
        group="bench-airflow",
        job="months",
        entry_point="benchmarks.jobs:months",
        config={"source": SOURCE, "output": f"{OUTPUT}/worker"},
        max_tasks=12,
    ) >> SparkWorkerOperator(task_id="worker", group="bench-airflow", allowed_entry_points=["benchmarks"], slots=2)

with DAG("mapped", schedule=None, max_active_tasks=2):

    @task
    def month(number: int) -> int:
        from pyspark.sql import SparkSession

        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .getOrCreate()
        )
        rows = do_month(spark, SOURCE, f"{OUTPUT}/mapped", number)
        spark.stop()
        return rows

    month.expand(number=list(MONTHS))
