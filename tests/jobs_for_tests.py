"""Spark jobs that the workers of tests import by name."""

from __future__ import annotations

import logging
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.spark.job import FencedError, JobContext, SparkJob, TaskContext, spark_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

DECLARED = {"properties": {"table": {"type": "string"}}, "required": ["table"]}


class Squares(SparkJob):
    """Adds up the squares of the numbers below ``rows``, one residue class per task; the task ``bad`` fails."""

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
    """Plans one task more than ``max_tasks``."""


@spark_job(plan=[])
def nothing(spark: SparkSession, task: TaskContext) -> None:
    """Plans no task."""


def no_job() -> None:
    """Lacks the decorator."""


def never_planned(job: JobContext) -> list[dict[str, Any]]:
    log.warning("plans for ever")
    time.sleep(600)
    return []


@spark_job(plan=never_planned)
def stubborn(spark: SparkSession, task: TaskContext) -> None:
    """Plans for ever, and ignores that it is told to stop."""


class Scribe(SparkJob):
    """Writes a line every tenth of a second until its fence raises; ignores ``task.stopping``."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [dict(job.config) for _ in range(job.max_tasks)]

    def run(self, spark: SparkSession, task: TaskContext) -> None:
        folder = Path(task.config["folder"])
        while True:
            try:
                task.fence()
            except FencedError as fenced:
                with (folder / f"{task.index}.fenced").open("a") as log:
                    log.write(f"{os.getpid()} {task.attempt} {fenced}\n")
                raise
            with (folder / f"{task.index}.lines").open("a") as out:
                out.write(f"{os.getpid()} {task.attempt} {time.time()}\n")
            time.sleep(0.1)


class Numbers(SparkJob):
    """Writes the numbers below ``rows``, one range per task, over ``seconds``."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        rows, parts = job.config["rows"], job.max_tasks
        return [
            {**job.config, "start": rows * part // parts, "end": rows * (part + 1) // parts} for part in range(parts)
        ]

    def run(self, spark: SparkSession, task: TaskContext) -> dict[str, int]:
        numbers = spark.range(task.config["start"], task.config["end"], numPartitions=2)
        task.wait(task.config["seconds"])
        task.fence()
        numbers.write.mode("overwrite").json(f"{task.config['output']}/part={task.index}")
        return {"rows": task.config["end"] - task.config["start"]}


class Chatty(SparkJob):
    """Logs what it does, at a level that is off by default."""

    def run(self, spark: SparkSession, task: TaskContext) -> None:
        while not task.wait(0.1):
            log.debug("attempt %d of %s goes on", task.attempt, task.job)


class Declared(SparkJob):
    """Declares a schema for its config."""

    config_schema = DECLARED

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{"table": job.config["table"], "part": part} for part in range(job.max_tasks)]

    def run(self, spark: SparkSession, task: TaskContext) -> str:
        return str(task.config["table"])


class Append(SparkJob):
    """A stream that copies what arrives in a folder; Spark does it all, without Python."""

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        lines = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(task.config["input"])
        stream = lines.writeStream.format("json").option("checkpointLocation", task.checkpoint_location)
        if task.config.get("bounded"):
            stream = stream.trigger(availableNow=True)
        return stream.start(task.config["output"])

    def start_with_note(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        """Start it, and write how that went into the file ``start``."""
        note = Path(task.config["notes"]) / "start"
        try:
            query = Append.run(self, spark, task)
        except Exception as refused:
            note.write_text(str(refused))
            raise
        note.write_text("began")
        return query


class HoldsInterpreter(Append):
    """When its stream runs and the file ``hold`` exists, it removes that, and holds the interpreter for ever."""

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        query = super().run(spark, task)
        hold = Path(task.config["hold"])
        while not hold.exists():
            if task.wait(0.05):
                return query
        hold.unlink()
        re.match(r"(a+)+$", "a" * 60 + "b")
        return query


class StartsWhenLet(Append):
    """Its first start waits on the server until somebody writes the metadata of its checkpoint, which is a pipe. It
    then writes how its start went into the file ``start``.
    """

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        metadata = Path(task.checkpoint_location) / "metadata"
        if metadata.exists():
            return super().run(spark, task)
        metadata.parent.mkdir(parents=True)
        os.mkfifo(metadata)
        return self.start_with_note(spark, task)


class AppendBatches(SparkJob):
    """Copies with a ``foreachBatch`` function: each batch goes to a folder named by its number, with the id of the
    process that wrote it.
    """

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        lines = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(task.config["input"])
        output = task.config["output"]

        def write(batch: DataFrame, number: int) -> None:
            folder = Path(output) / f"batch={number}"
            batch.write.mode("overwrite").json(str(folder))
            (folder / "written-by").write_text(str(os.getpid()))

        stream = lines.writeStream.foreachBatch(task.foreach_batch(write))
        return stream.option("checkpointLocation", task.checkpoint_location).start()


class SleepsOnce(Append):
    """The first worker to run it sleeps until a file ``awake`` exists. It then writes how its start went into the file
    ``start``.
    """

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        folder = Path(task.config["notes"])
        if (folder / "asleep").exists():
            return super().run(spark, task)
        (folder / "asleep").touch()
        while not (folder / "awake").exists():
            time.sleep(0.05)
        return self.start_with_note(spark, task)
