"""A streaming query that moves to another worker and goes on from its checkpoint: no line is lost or copied twice.

Two workers start. The one that runs the query is asked to go, as when a machine is upgraded; the query moves. In the
end the job is removed, and the other worker is asked to go too.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".streaming"
FOLDER = Path(os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")) / "streaming"  # noqa: S108
JOB = "copy_lines"
LINES = 50


def write_lines(name: str, start: int) -> None:
    """A file appears in the folder whole or not at all."""
    folder = FOLDER / "input"
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps({"id": number}) + "\n" for number in range(start, start + LINES)))
    hidden.rename(folder / f"{name}.json")


def copied_lines() -> list[int]:
    """What the query has written, sorted: a line that was copied twice is there twice."""
    parts = (FOLDER / "output").glob("batch=*/part-*.json")
    return sorted(json.loads(line)["id"] for part in parts for line in part.read_text().splitlines())


with DAG("example_streaming_group", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):

    @task
    def write_first_lines() -> None:
        write_lines("first", 0)

    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job=JOB,
        entry_point="airflow_provider.example_dags.jobs:CopyLines",
        config={"input": str(FOLDER / "input"), "output": str(FOLDER / "output")},
        kind="streaming",
        kafka_conn_id=KAFKA,
    )

    # [START howto_operator_spark_worker_streaming]
    workers = SparkWorkerOperator.partial(
        task_id="worker",
        group=GROUP,
        until="forever",
        allowed_entry_points=["airflow_provider.example_dags.jobs"],
        checkpoint_root=str(FOLDER / "checkpoints"),  # a folder that all workers reach
        policy="immediate",  # what a worker loses is given to another without a wait
        kafka_conn_id=KAFKA,
        retries=2,
        retry_delay=timedelta(seconds=1),
    ).expand(slots=[1, 1])
    # [END howto_operator_spark_worker_streaming]

    runs = JobSensor(
        task_id="runs", group=GROUP, job=JOB, state="running", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    @task.sensor(poke_interval=1, timeout=3600)
    def first_lines_are_copied() -> PokeReturnValue:
        return PokeReturnValue(is_done=len(copied_lines()) >= LINES)

    # [START howto_hook_stop_workers]
    @task
    def stop_the_worker_that_runs_it() -> str:
        hook = SparkGroupHook(KAFKA)
        group = hook.group_state(GROUP)
        assert group is not None
        (busy,) = [worker for worker, tasks in group.record.assignment.items() if tasks]
        hook.stop_workers(GROUP, [busy])
        return busy

    # [END howto_hook_stop_workers]

    @task
    def write_more_lines() -> None:
        write_lines("second", LINES)

    @task.sensor(poke_interval=1, timeout=3600)
    def all_lines_are_copied() -> PokeReturnValue:
        return PokeReturnValue(is_done=len(copied_lines()) >= 2 * LINES)

    remove = RemoveSparkJobOperator(task_id="remove", group=GROUP, job=JOB, kafka_conn_id=KAFKA)

    @task
    def stop_the_other_worker() -> list[str]:
        return SparkGroupHook(KAFKA).stop_workers(GROUP)

    @task
    def each_line_is_there_once() -> dict[str, Any]:
        lines = copied_lines()
        if lines != list(range(2 * LINES)):
            raise ValueError(f"lines were lost or copied twice: {lines}")
        return {"lines": len(lines)}

    write_first_lines() >> submit >> [workers, runs]
    copied = all_lines_are_copied()
    runs >> first_lines_are_copied() >> stop_the_worker_that_runs_it() >> write_more_lines() >> copied
    # Whatever fails before: the job is taken back and the workers, which would stay for ever, are sent home.
    copied >> remove.as_teardown(setups=submit) >> stop_the_other_worker().as_teardown(setups=submit)
    [copied, remove] >> each_line_is_there_once()
