"""Jobs whose tasks run on a Spark Connect server: their workers need no Java, and start in no time.

Streams run on there while their worker is deferred.

To try it: ``cospark spark-connect --port 15002`` starts a server and says what the connection is.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.records import WorkerPhase
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".connect"
FOLDER = os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")  # noqa: S108

# [START howto_connect_dag]
with DAG("example_spark_connect", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job="count_by_digit",
        entry_point="airflow_provider.example_dags.jobs:CountByDigit",
        config={"rows": 1_000_000, "output": f"{FOLDER}/connect"},
        max_tasks=4,
        task_retries=1,
        kafka_conn_id=KAFKA,
    )

    workers = SparkWorkerOperator.partial(
        task_id="worker",
        group=GROUP,
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        spark_conn_id="spark_connect_default",
        spark_conf={"spark.sql.shuffle.partitions": 4},
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    ).expand(slots=[1, 2])

    counted = JobSensor(
        task_id="counted", group=GROUP, job="count_by_digit", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    submit >> [workers, counted]
# [END howto_connect_dag]


STREAMS = f"{GROUP}.streams"

with DAG("example_spark_connect_streams", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):
    submit_streams = SparkJobOperator(
        task_id="submit",
        group=STREAMS,
        job="ticks",
        entry_point="airflow_provider.example_dags.jobs:Ticks",
        kind="streaming",
        max_tasks=3,
        kafka_conn_id=KAFKA,
    )

    # [START howto_connect_streams]
    worker = SparkWorkerOperator(
        task_id="worker",
        group=STREAMS,
        until="forever",
        slots=3,
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        spark_conn_id="spark_connect_default",
        checkpoint_root=f"{FOLDER}/connect/checkpoints",  # a folder that the server reaches
        progress_interval=2,
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
    # [END howto_connect_streams]

    @task.sensor(poke_interval=1, timeout=3600)
    def all_go_on_while_their_worker_is_deferred() -> PokeReturnValue:
        hook = SparkGroupHook(KAFKA)
        group, ticks = hook.group_state(STREAMS), hook.describe_job(STREAMS, "ticks")
        if group is None or ticks is None:
            return PokeReturnValue(is_done=False)
        deferred_at = [worker.at_ms for worker in group.workers if worker.state is WorkerPhase.DEFERRED]
        told = [stream.last.progress for stream in ticks.tasks if stream.last and stream.last.progress]
        new = [progress.batch for progress in told if deferred_at and progress.at_ms > deferred_at[0]]
        return PokeReturnValue(is_done=len(new) == 3, xcom_value=new)

    remove = RemoveSparkJobOperator(task_id="remove", group=STREAMS, job="ticks", kafka_conn_id=KAFKA)

    @task
    def stop_the_worker() -> list[str]:
        return SparkGroupHook(KAFKA).stop_workers(STREAMS)

    go_on = all_go_on_while_their_worker_is_deferred()
    submit_streams >> [worker, go_on]
    # Whatever fails before: the streams are ended, and the worker, which would stay for ever, is sent home.
    go_on >> remove.as_teardown(setups=submit_streams) >> stop_the_worker().as_teardown(setups=submit_streams)
