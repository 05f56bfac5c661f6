"""The benchmarks' Spark jobs: a month of flights is read, filtered, aggregated and written as Parquet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.job import TaskContext, spark_job

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MONTHS: Final = range(1, 13)
_SCHEMA: Final = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, arr_time int,"
    " sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string"
)
"""The first columns. A schema is given, as for any table that is read every day, so that the file is read only once."""


def do_month(spark: SparkSession, source: str, output: str, month: int) -> int:
    """Write the month's flights by carrier and origin; return how many there were."""
    from pyspark.sql import functions as F  # noqa: N812

    flights = spark.read.csv(f"{source}/flights.csv", schema=_SCHEMA, header=True, nullValue="NA")
    flown = flights.where((F.col("month") == month) & F.col("arr_delay").isNotNull())
    by_carrier = flown.groupBy("carrier", "origin").agg(F.count("*").alias("flights"), F.avg("arr_delay"))
    path = f"{output}/month={month:02d}"
    by_carrier.write.mode("overwrite").parquet(path)
    counted = spark.read.parquet(path).agg(F.sum("flights")).first()
    assert counted is not None
    return int(counted[0])


@spark_job(plan=lambda job: [{**job.config, "month": month} for month in MONTHS])
def months(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    rows = do_month(spark, task.config["source"], task.config["output"], task.config["month"])
    return {"rows": rows}


@spark_job(plan=lambda job: [{}] * job.max_tasks)
def endless(spark: SparkSession, task: TaskContext) -> None:
    """Work a little, and then wait until it is stopped."""
    spark.range(10).collect()
    while not task.stopping:
        task.wait(60)


@spark_job(plan=lambda job: [dict(job.config)] * job.max_tasks)
def ticking(spark: SparkSession, task: TaskContext) -> StreamingQuery:
    """A stream whose batches have almost nothing to do."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    writer = ticks.writeStream.format("noop").option("checkpointLocation", task.checkpoint_location)
    return writer.trigger(processingTime=f"{task.config['every_s']:g} seconds").start()


@spark_job(plan=lambda job: [{**job.config, "index": index} for index in range(job.max_tasks)])
def quiet(spark: SparkSession, task: TaskContext) -> StreamingQuery:
    """A stream that has one small batch when it starts, and then waits for a day. The one with the index ``culprit``
    ends its server, as if that were out of memory.
    """
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    trigger = "1 day"
    if task.config["index"] == task.config["culprit"]:
        ticks, trigger = ticks.where(_ends_server(task.config["after_s"])), "1 second"
    writer = ticks.writeStream.format("noop").option("checkpointLocation", task.checkpoint_location)
    return writer.trigger(processingTime=trigger).start()


def _ends_server(after_s: float) -> Column:
    """A condition that kills the JVM that evaluates it, if that is so many seconds after now."""
    from pyspark.sql import functions as F  # noqa: N812

    due = time.time() + after_s

    @F.udf("boolean")
    def ends(_: int) -> bool:
        import psutil

        if time.time() >= due:
            next(each for each in psutil.Process().parents() if each.name() == "java").kill()
        return True

    return ends("value")
