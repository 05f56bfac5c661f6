"""The demo's DAGs: three workers share the months of 2013, and a fourth joins while they run."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import Deferred, Membership, SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

GROUP = "flights"
ALLOWED = ["demo"]
SERVER = "spark_connect_default"
# Four Spark applications start at about the same time on a small machine, so their JVMs use only the quick compiler.
OF_THEIR_OWN = {
    "spark_master": "local[1]",
    "spark_conf": {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
}
DEFAULTS = {
    "slots": 1,
    **({"spark_conn_id": SERVER} if f"AIRFLOW_CONN_{SERVER.upper()}" in os.environ else OF_THEIR_OWN),
    "membership": Membership(session_timeout=45),
    "policy": Deferred(max_delay=30),
    "linger": 10,
    "retries": 3,
    "retry_delay": timedelta(seconds=1),
}

with DAG("flights", schedule=None, default_args=DEFAULTS, tags=["cospark"], doc_md=__doc__):
    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job="monthly-delays",
        entry_point="demo.flights:MonthlyDelays",
        config={"input": os.environ["COSPARK_DEMO_INPUT"], "output": os.environ["COSPARK_DEMO_OUTPUT"]},
        max_tasks=12,
        task_retries=1,
    )
    for number in (1, 2, 3):
        submit >> SparkWorkerOperator(
            task_id=f"worker_{number}", worker=f"worker-{number}", group=GROUP, allowed_entry_points=ALLOWED
        )
    submit >> JobSensor(task_id="finished", group=GROUP, job="monthly-delays", deferrable=True)

with DAG("flights_late_worker", schedule=None, default_args=DEFAULTS, tags=["cospark"], doc_md=__doc__):
    SparkWorkerOperator(task_id="worker_4", worker="worker-4", group=GROUP, allowed_entry_points=ALLOWED)
