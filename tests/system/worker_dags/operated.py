"""Daily operations on a job, and a DAG that the output of another job starts."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, AssetAlias, chain, task

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.steer_spark_job import (
    AlterSparkJobOperator,
    PauseSparkJobOperator,
    RestartSparkJobOperator,
    ResumeSparkJobOperator,
    StopSparkJobOperator,
)

GROUP: dict[str, Any] = {"group": "{{ dag_run.conf['group'] }}", "kafka_conn_id": "broker"}
FLIGHTS = Asset("flights_of_the_tests")

with DAG("operated"):
    job: dict[str, Any] = {**GROUP, "job": "{{ dag_run.conf['job'] }}"}
    chain(
        PauseSparkJobOperator(task_id="pause", **job),
        ResumeSparkJobOperator(task_id="resume", **job),
        RestartSparkJobOperator(task_id="restart", **job),
        AlterSparkJobOperator(task_id="alter", config={"limit": "{{ dag_run.conf['limit'] }}"}, **job),
        StopSparkJobOperator(task_id="stop", **job),
    )

with DAG("writes"):
    SparkJobOperator(
        task_id="write",
        job="write",
        entry_point="jobs:Nap",
        config={"seconds": 0.2, "writes": {FLIGHTS.name: 7}},
        max_tasks=3,
        wait_for_completion=True,
        deferrable=True,
        outlets=[AssetAlias("written_in_the_tests")],
        **GROUP,
    )

with DAG("after_writes", schedule=[FLIGHTS]):

    @task
    def told(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        return [event.extra for event in triggering_asset_events[FLIGHTS]]

    told()
