"""What becomes of records of Kafka, with a real Spark: rows, dead letters, fields that are inferred, tables.

The records are made by hand, with the columns of Spark's Kafka source: there is no such source for this Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from runner_bench import Events, order_of

from airflow_provider.jobs.kafka_rows import POSITION, Keeps, fields_of, rows_of
from airflow_provider.jobs.kafka_to_table import _have_table, _in_order, _schema_of
from airflow_provider.jobs.sql_names import columns_of, quoted_table
from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.runner import TaskFailed
from airflow_provider.spark.runners.local import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

FIELDS = "id LONG, name STRING"
GOOD = ['{"id": 1, "name": "a"}', '{"name": "b", "more": true}', "{}"]
OTHERS = ['{"id": "one"}', '{"id": 2', "[1]", "text", "", None]


def records(spark: SparkSession, values: Sequence[str | None]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    texts = spark.createDataFrame(list(enumerate(values)), "offset LONG, text STRING")
    return texts.select(
        F.lit(b"k").alias("key"),
        F.col("text").cast("binary").alias("value"),
        F.lit("orders").alias("topic"),
        F.lit(0).alias("partition"),
        "offset",
        F.timestamp_seconds(F.lit(1_700_000_000)).alias("timestamp"),
    )


@spark_job
def offsets(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    """The offsets of the records that are kept, and the columns."""
    rows = rows_of(records(spark, task.config["values"]), Keeps(task.config["keeps"]), task.config["fields"])
    return {"offsets": [row["kafka_offset"] for row in rows.orderBy("kafka_offset").collect()], "columns": rows.columns}


@spark_job
def infer(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    fields = fields_of(spark, task.config["values"])
    (row,) = rows_of(records(spark, task.config["values"][:1]), Keeps.ALL, fields).collect()
    return {"fields": fields, "id": row["id"]}


@spark_job
def write(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    """Twice into one table, the second time with one more field."""
    table = "kafka_rows_orders"
    there = _schema_of(spark, table, "parquet") is not None
    for fields in (FIELDS, f"{FIELDS}, more BOOLEAN"):
        rows = rows_of(records(spark, GOOD), Keeps.PARSED, fields)
        _have_table(spark, table, "parquet", rows)
        _in_order(rows, spark.table(table)).write.insertInto(table)
    schema = _schema_of(spark, table, "parquet")
    assert schema is not None
    return {"there": there, "columns": schema.names, "rows": spark.table(table).count()}


@spark_job
def write_inferred(spark: SparkSession, task: TaskContext) -> dict[str, Any]:
    """Into a table with the fields that the records have, the second time with those that the table has, too."""
    table, names = quoted_table("table", "kafka_rows_inferred"), list[Any]()
    for value in task.config["values"]:
        rows = rows_of(records(spark, [value]), Keeps.ALL, fields_of(spark, [value]))
        _have_table(spark, table, "parquet", rows)
        schema = _schema_of(spark, table, "parquet")
        assert schema is not None
        known = rows_of(
            records(spark, [value]), Keeps.ALL, columns_of(one for one in schema if one.name not in POSITION)
        )
        _in_order(known, spark.table(table)).write.insertInto(table)
        names = [*schema.names, schema[0].dataType.simpleString()]
    return {"names": names, "rows": spark.table(table).count()}


order = partial(order_of, __name__)


async def test_each_record_is_a_row_or_a_dead_letter(runner: LocalRunner, events: Events) -> None:
    kept: dict[str, Any] = {}
    for index, keeps in enumerate((Keeps.PARSED, Keeps.OTHERS, Keeps.BYTES)):
        task = order("offsets", index, values=GOOD + OTHERS, keeps=keeps.value, fields=FIELDS)
        await runner.start(task)
        kept[keeps] = await events.result(task.task)
    position = ["kafka_partition", "kafka_offset", "kafka_timestamp"]
    assert kept[Keeps.PARSED] == {"offsets": [0, 1, 2], "columns": ["id", "name", *position]}
    assert kept[Keeps.OTHERS] == {"offsets": [3, 4, 5, 6, 7, 8], "columns": ["key", "value", *position]}
    assert kept[Keeps.BYTES] == {"offsets": [*range(9)], "columns": ["key", "value", *position]}


async def test_without_dead_letters_one_that_is_no_such_object_fails_the_task(
    runner: LocalRunner, events: Events
) -> None:
    task = order("offsets", values=GOOD + OTHERS[:1], keeps=Keeps.ALL.value, fields=FIELDS)
    await runner.start(task)
    failed = await events.last(task.task)
    assert isinstance(failed, TaskFailed)
    assert "MALFORMED_RECORD" in failed.error


async def test_fields_are_those_of_all_the_first_records(runner: LocalRunner, events: Events) -> None:
    task = order("infer", values=['{"id": 7}', '{"id": 1.5, "tags": ["x"], "at": {"y": 1}}'])
    await runner.start(task)
    assert await events.result(task.task) == {
        "fields": "at: STRUCT<y: BIGINT>, id: DOUBLE, tags: ARRAY<STRING>",
        "id": 7.0,
    }


async def test_no_name_of_a_records_field_is_read_as_sql(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    outer = "a` INT) USING parquet LOCATION '/nowhere' -- "
    inner = "b: INT>) USING parquet -- `"
    first, second = {outer: {inner: 1}}, {outer: {inner: 2}, "c`, d": True}
    task = order("write_inferred", folder=str(tmp_path), values=[json.dumps(first), json.dumps(second)])
    await runner.start(task)
    position = ["kafka_partition", "kafka_offset", "kafka_timestamp"]
    assert await events.result(task.task) == {
        "names": [outer, *position, "c`, d", f"struct<{inner}:bigint>"],
        "rows": 2,
    }


async def test_a_table_is_made_and_gets_the_columns_that_it_lacks(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    task = order("write", folder=str(tmp_path))
    await runner.start(task)
    assert await events.result(task.task) == {
        "there": False,
        "columns": ["id", "name", "kafka_partition", "kafka_offset", "kafka_timestamp", "more"],
        "rows": 6,
    }
