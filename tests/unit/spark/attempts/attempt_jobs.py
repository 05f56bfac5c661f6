"""Jobs for tests of attempts, and orders to run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_session import Query

from airflow_provider.spark.job import SparkJob, TaskContext, spark_job
from airflow_provider.spark.lineage import Dataset, Lineage
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.values.model import Epoch, TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS = __name__


@spark_job(plan=lambda job: [{"n": n} for n in range(job.config["tasks"])])
def add(spark: SparkSession, task: TaskContext) -> object:
    return {"session": spark, "sum": sum(task.config["numbers"]), "attempt": task.attempt, "run": task.run_key}


@spark_job
def write(spark: SparkSession, task: TaskContext) -> object:
    task.wrote("orders", 7, uri="s3://lake/orders")
    return 1 / task.config["divide_by"]


@spark_job
def warm_up_first(spark: SparkSession, task: TaskContext) -> object:
    return {"rehearsed": list(task.rehearse(None))}  # type: ignore[arg-type]


@spark_job
def talk(spark: SparkSession, task: TaskContext) -> object:
    return "x" * 100_000


@spark_job
def count_beyond_all_bounds(spark: SparkSession, task: TaskContext) -> object:
    return {"n": 10**4_300}


@spark_job
def stream(spark: SparkSession, task: TaskContext) -> object:
    return Query()


class CannotBeMade(SparkJob):
    def __init__(self) -> None:
        raise ValueError("no")

    def run(self, spark: SparkSession, task: TaskContext) -> None: ...


@spark_job
def fail(spark: SparkSession, task: TaskContext) -> None:
    raise ValueError("bad row") from KeyError("customer")


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise AttributeError("never set")


@spark_job
def fail_without_words(spark: SparkSession, task: TaskContext) -> None:
    raise SpeechlessError from KeyError("customer")


class ExitingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


@spark_job
def fail_and_exit_when_described(spark: SparkSession, task: TaskContext) -> None:
    raise ExitingError


@spark_job
def leave(spark: SparkSession, task: TaskContext) -> None:
    raise SystemExit(3)


@spark_job
def fenced(spark: SparkSession, task: TaskContext) -> None:
    task.fence()


ORDERS = Dataset("s3://lake", "orders")


@spark_job(lineage=lambda task: Lineage(outputs=[Dataset("s3://lake", task.config["table"])]))
def write_table(spark: SparkSession, task: TaskContext) -> str:
    return "written"


@spark_job(lineage=lambda task: Lineage(inputs=[task.config["no such table"]]))
def name_nothing(spark: SparkSession, task: TaskContext) -> str:
    return "written"


def exit_at_once(task: TaskContext) -> Lineage:
    raise SystemExit(0)


@spark_job(lineage=exit_at_once)
def name_nothing_and_exit(spark: SparkSession, task: TaskContext) -> str:
    return "written"


@spark_job(lineage=lambda task: [ORDERS])  # type: ignore[arg-type, return-value]  # what a test is about
def name_a_list(spark: SparkSession, task: TaskContext) -> str:
    return "written"


def plan_and_count(job: object) -> list[dict[str, int]]:
    CALLED.append("plan")
    return [{}]


CALLED: list[str] = []


@spark_job(plan=plan_and_count)
def count_calls(spark: SparkSession, task: TaskContext) -> None:
    CALLED.append("run")


def order(name: str, index: int = 0, **config: object) -> TaskOrder:
    return TaskOrder(
        task=TaskId("job", index),
        entry_point=f"{__name__}:{name}",
        config=config,
        epoch=Epoch(4),
        attempt=2,
        run_key="monday",
        max_tasks=3,
    )
