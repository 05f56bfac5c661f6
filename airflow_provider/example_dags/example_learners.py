"""Streams with state that are warm before they move: to a worker that joins, and back when the group gets smaller.

A worker runs two streams of running totals. A second one joins, reads the reference data and the newest checkpoint of
one of them while that runs on, and takes it when it is ready. Then half of the workers are to leave: who stays learns
what they have. In the end each total is exact.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, PokeReturnValue, task

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.scale_spark_group import ScaleSparkGroupOperator
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import SparkWorkerOperator
from airflow_provider.sensors.job import JobSensor

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".learners"
FOLDER = Path(os.environ.get("COSPARK_EXAMPLE_FOLDER", "/tmp/cospark-example")) / "learners"  # noqa: S108
JOB = "revenue"
REGIONS = ["east", "west"]
ITEMS = 5


def write_rows(path: Path, rows: Iterable[Mapping[str, int]]) -> None:
    """A file appears in its folder whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.parent / f".{path.name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(path)


def sell(day: str) -> None:
    """In each region one piece of the first item, two of the second, and so on."""
    for region in REGIONS:
        write_rows(FOLDER / "input" / region / f"{day}.json", ({"item": n, "pieces": n} for n in range(1, ITEMS + 1)))


def totals_after(days: int) -> list[dict[int, int]]:
    """What the streams must come to: an item costs ten times its number."""
    return [{n: days * n * 10 * n for n in range(1, ITEMS + 1)} for _ in REGIONS]


def written_totals() -> list[dict[int, int]]:
    """What they have written, in the order of the regions. A file may vanish while it is looked for."""
    totals = []
    for region in REGIONS:
        try:
            lines = [line for part in (FOLDER / "output" / region).glob("part-*.json") for line in part.open()]
        except FileNotFoundError:
            lines = []
        totals.append({row["item"]: row["sum(paid)"] for row in map(json.loads, lines)})
    return totals


with DAG("example_learners", schedule=None, catchup=False, max_active_runs=1, tags=["example", "cospark"]):

    @task
    def write_first_day() -> None:
        write_rows(FOLDER / "prices.json", ({"item": n, "price": 10 * n} for n in range(1, ITEMS + 1)))
        sell("monday")

    submit = SparkJobOperator(
        task_id="submit",
        group=GROUP,
        job=JOB,
        entry_point="airflow_provider.example_dags.jobs:Revenue",
        config={
            "input": str(FOLDER / "input"),
            "output": str(FOLDER / "output"),
            "prices": str(FOLDER / "prices.json"),
            "regions": REGIONS,
        },
        max_tasks=len(REGIONS),
        kind="streaming",
        kafka_conn_id=KAFKA,
    )

    # [START howto_operator_spark_worker_learners]
    first_worker, second_worker = (
        SparkWorkerOperator(
            task_id=task_id,
            group=GROUP,
            until="forever",
            connect_protocol="extensible",  # classic and learning, also where groups are declarative by default
            allowed_entry_points=["airflow_provider.example_dags.jobs"],
            spark_conf={"spark.sql.shuffle.partitions": "2"},
            checkpoint_root=str(FOLDER / "checkpoints"),
            kafka_conn_id=KAFKA,
            retries=2,
            retry_delay=timedelta(seconds=1),
        )
        for task_id in ("first_worker", "second_worker")
    )
    # [END howto_operator_spark_worker_learners]

    runs = JobSensor(
        task_id="runs", group=GROUP, job=JOB, state="running", kafka_conn_id=KAFKA, deferrable=True, timeout=3600
    )

    @task.sensor(poke_interval=1, timeout=3600)
    def first_day_is_counted() -> PokeReturnValue:
        return PokeReturnValue(is_done=written_totals() == totals_after(1))

    @task.sensor(poke_interval=1, timeout=3600)
    def a_stream_has_moved() -> PokeReturnValue:
        group = SparkGroupHook(KAFKA).group_state(GROUP)
        assert group is not None
        for learner in group.learners:
            print(learner.in_words())
        streams = {
            worker: [each.index for each in tasks if not each.is_planner]
            for worker, tasks in group.record.assignment.items()
        }
        return PokeReturnValue(is_done=len(streams) == 2 and all(streams.values()), xcom_value=streams)

    @task
    def write_second_day() -> None:
        sell("tuesday")

    # [START howto_operator_scale_spark_group]
    halve = ScaleSparkGroupOperator(
        task_id="halve", group=GROUP, to="50%", kafka_conn_id=KAFKA, deferrable=True, timeout=timedelta(hours=1)
    )
    # [END howto_operator_scale_spark_group]

    @task
    def write_third_day() -> None:
        sell("wednesday")

    @task.sensor(poke_interval=1, timeout=3600)
    def all_days_are_counted() -> PokeReturnValue:
        return PokeReturnValue(is_done=written_totals() == totals_after(3), xcom_value=totals_after(3))

    remove = RemoveSparkJobOperator(task_id="remove", group=GROUP, job=JOB, kafka_conn_id=KAFKA)

    @task
    def stop_the_other_worker() -> list[str]:
        return SparkGroupHook(KAFKA).stop_workers(GROUP)

    @task
    def each_total_is_exact() -> dict[str, Any]:
        totals = written_totals()
        if totals != totals_after(3):
            raise ValueError(f"sales were lost or counted twice: {totals}")
        return dict(zip(REGIONS, totals, strict=True))

    write_first_day() >> submit >> [first_worker, runs]
    moved = a_stream_has_moved()
    counted = all_days_are_counted()
    runs >> first_day_is_counted() >> [second_worker, moved]
    moved >> write_second_day() >> halve >> write_third_day() >> counted
    # Whatever fails before: the job is taken back and the workers, which would stay for ever, are sent home.
    counted >> remove.as_teardown(setups=submit) >> stop_the_other_worker().as_teardown(setups=submit)
    [counted, remove] >> each_total_is_exact()
