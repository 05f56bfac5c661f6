"""The Spark jobs of the example DAGs.

Workers know them as ``airflow_provider.example_dags.jobs:CountByDigit`` and so on. Nothing here imports PySpark at its
top, so a DAG file may import this module too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider.spark.job import JobContext, SparkJob, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


# [START howto_batch_job]
class CountByDigit(SparkJob):
    """Counts numbers by their last digit: a task for each part of them, a Parquet folder for each task."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        rows, parts = job.config["rows"], job.max_tasks
        return [
            {**job.config, "start": rows * part // parts, "end": rows * (part + 1) // parts} for part in range(parts)
        ]

    def run(self, spark: SparkSession, task: TaskContext) -> dict[str, int]:
        numbers = spark.range(task.config["start"], task.config["end"])
        counts = numbers.groupBy((numbers.id % 10).alias("digit")).count()
        task.fence()
        # Overwrites what an attempt before this one may have left.
        counts.write.mode("overwrite").parquet(f"{task.config['output']}/part={task.index}")
        return {"rows": task.config["end"] - task.config["start"]}


# [END howto_batch_job]


# [START howto_streaming_job]
class CopyLines(SparkJob):
    """Copies what arrives in a folder, each line once, wherever the query runs and however often it moves."""

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        lines = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(task.config["input"])
        output = task.config["output"]

        def write(batch: DataFrame, batch_id: int) -> None:
            # Named by its number: a batch that is written again replaces itself.
            batch.write.mode("overwrite").json(f"{output}/batch={batch_id}")

        return (
            lines.writeStream.foreachBatch(task.foreach_batch(write))
            .option("checkpointLocation", task.checkpoint_location)
            .start()
        )


# [END howto_streaming_job]


class Ticks(SparkJob):
    """Streams that count seconds, for groups that need something to move."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [dict(job.config) for _ in range(job.max_tasks)]

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        return ticks.writeStream.format("noop").option("checkpointLocation", task.checkpoint_location).start()


# [START howto_learner_job]
class Revenue(SparkJob):
    """Running totals of what is sold, by region. To price it takes reference data, which takes time to read."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{**job.config, "name": region} for region in job.config["regions"]]

    def warm_up(self, spark: SparkSession, task: TaskContext) -> None:
        """While another worker runs the task. Afterwards it stands still for a stop and a start only."""
        self._prices(spark, task)

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        config = dict(task.config)
        sales = spark.readStream.schema("item long, pieces long").json(f"{config['input']}/{config['name']}")
        priced = sales.join(self._prices(spark, task), "item").selectExpr("item", "pieces * price AS paid")

        def write(batch: DataFrame, _batch_id: int) -> None:
            # All totals each time: they replace the last ones.
            batch.write.mode("overwrite").json(f"{config['output']}/{config['name']}")

        return (
            priced.groupBy("item")
            .sum("paid")
            .writeStream.outputMode("complete")
            .foreachBatch(task.foreach_batch(write))
            .option("checkpointLocation", task.checkpoint_location)
            .start()
        )

    def _prices(self, spark: SparkSession, task: TaskContext) -> DataFrame:
        """Read once a worker, for all regions; after a warm-up they are there already."""
        prices = task.config["prices"]
        return task.cached(prices, lambda: spark.read.schema("item long, price long").json(prices))


# [END howto_learner_job]
