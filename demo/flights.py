"""The demo's Spark job: the flights that left New York in 2013, with a task for each month.

Each task cleans its month, joins it with the planes and the weather at departure, and writes delay statistics as
Parquet. The input is what :mod:`~demo.data` has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.job import JobContext, SparkJob, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MONTHS: Final = range(1, 13)
LATE_MINUTES: Final = 15
"""A flight is late from so many minutes on, as for the US authorities."""


_SCHEMAS: Final = {
    "flights": "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay double, arr_time int,"
    " sched_arr_time int, arr_delay double, carrier string, flight int, tailnum string, origin string, dest string,"
    " air_time double, distance double, hour int, minute int, time_hour string",
    "planes": "tailnum string, year int, type string, manufacturer string, model string, engines int, seats int,"
    " speed int, engine string",
    "weather": "origin string, year int, month int, day int, hour int, temp double, dewp double, humid double,"
    " wind_dir int, wind_speed double, wind_gust double, precip double, pressure double, visib double,"
    " time_hour string",
}


class MonthlyDelays(SparkJob):
    """The job. Its ``config`` has ``input`` and ``output``, two folders."""

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        return [{**job.config, "month": month} for month in MONTHS]

    def run(self, spark: SparkSession, task: TaskContext) -> dict[str, Any]:
        from pyspark.sql import functions as F  # noqa: N812

        source, month = task.config["input"], task.config["month"]
        flights = _read(spark, source, "flights").where(F.col("month") == month)
        flown = _clean(flights).cache()
        rows_in, rows_out = flights.count(), flown.count()
        joined = _join(flown, _read(spark, source, "planes"), _read(spark, source, "weather"))
        statistics = (
            joined.groupBy("origin", "dest", "carrier", "manufacturer", "wet")
            .agg(
                F.count("*").alias("flights"),
                F.sum("arr_delay").alias("arr_delay_minutes"),
                F.sum((F.col("arr_delay") >= LATE_MINUTES).cast("int")).alias("late"),
                F.expr("percentile_approx(arr_delay, 0.95)").alias("arr_delay_p95"),
                F.avg("wind_speed").alias("wind_speed"),
                F.countDistinct("tailnum").alias("planes"),
            )
            .withColumn("month", F.lit(month))
        ).cache()
        totals = statistics.agg(F.sum("arr_delay_minutes"), F.sum("late"), F.count("*")).first()
        assert totals is not None
        task.fence()
        statistics.coalesce(1).write.mode("overwrite").parquet(f"{task.config['output']}/month={month:02d}")
        return {
            "month": month,
            "rows_in": rows_in,
            "rows_out": rows_out,
            "arr_delay_minutes": int(totals[0]),
            "late": int(totals[1]),
            "statistics": int(totals[2]),
        }


def _read(spark: SparkSession, folder: str, name: str) -> DataFrame:
    return spark.read.csv(f"{folder}/{name}.csv", schema=_SCHEMAS[name], header=True, nullValue="NA")


def _clean(flights: DataFrame) -> DataFrame:
    """The flights that arrived as planned: cancelled and diverted ones have no arrival delay."""
    return flights.dropna(subset=["dep_time", "arr_delay", "tailnum"])


def _join(flights: DataFrame, planes: DataFrame, weather: DataFrame) -> DataFrame:
    """Each flight once, with its plane's maker and the weather at its departure, as far as these are known."""
    from pyspark.sql import functions as F  # noqa: N812

    makers = planes.select("tailnum", "manufacturer").dropDuplicates(["tailnum"])
    sky = weather.select("origin", "time_hour", "wind_speed", (F.col("precip") > 0).alias("wet"))
    return (
        flights.join(F.broadcast(makers), "tailnum", "left")
        .join(sky.dropDuplicates(["origin", "time_hour"]), ["origin", "time_hour"], "left")
        .fillna({"manufacturer": "unknown", "wet": False})
    )
