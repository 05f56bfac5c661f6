"""A job without code: it copies Kafka topics into tables, a stream for each topic.

Each stream writes with the sink of its table's format, by which Spark, Delta and Iceberg write each batch exactly once,
also after a crash, a move, or beside a zombie. So records that are no JSON objects are not sorted out by a second write
of the same batch, but by a second stream, which keeps only those.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args

from msgspec import Meta

from airflow_provider.jobs.kafka_clients import KafkaClientError, check_options, client_for
from airflow_provider.jobs.kafka_rows import POSITION, Keeps, fields_of, rows_of
from airflow_provider.jobs.kafka_topics import PLACE_OF_TOPIC, SameTableError, is_path, tables_of, topics_like
from airflow_provider.jobs.sql_names import NotANameError, columns_of, quoted, quoted_table
from airflow_provider.spark.job import JobContext, SparkJob, TaskContext
from airflow_provider.spark.job.planning import PlanError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_SAMPLE: Final = 1_000
"""From so many of a topic's first records its fields are inferred."""
_EVERY: Final = "10 seconds"

_REFUSED: Final = (KafkaClientError, NotANameError, SameTableError)

Format: TypeAlias = Literal["delta", "iceberg", "parquet"]


@dataclass
class KafkaToTableConfig:
    """What to copy."""

    bootstrap_servers: Annotated[str, Meta(min_length=1, description="brokers to ask first: host:port, …")]
    table: Annotated[
        str,
        Meta(pattern=r"\{topic\}", description="a table's name (lake.raw.{topic}) or path (s3a://lake/{topic})"),
    ]
    format: Annotated[Format, Meta(description="of the tables")]
    topics: Annotated[list[str], Meta(description="names of topics")] = field(default_factory=list)
    pattern: Annotated[
        str, Meta(description="a regular expression: also all topics whose whole name it matches, now or later")
    ] = ""
    value: Annotated[
        Literal["json", "bytes"],
        Meta(description="what values are: JSON objects, whose fields become columns; or anything, kept as it is"),
    ] = "json"
    fields: Annotated[
        str,
        Meta(
            description="of the JSON objects, as in 'id LONG, name STRING'; empty: those that the table has, or the"
            " topic's first records if there is no table yet"
        ),
    ] = ""
    dead_letters: Annotated[
        str,
        Meta(
            pattern=r"^$|\{topic\}",
            description="the name or path of a table for records that are no such JSON objects; empty: such a record"
            " makes its stream fail",
        ),
    ] = ""
    every: Annotated[
        str, Meta(description="time between batches, as in '10 seconds'; empty: copy what is there now, and end")
    ] = _EVERY
    options: Annotated[
        dict[str, str],
        Meta(description="more options of Spark's Kafka source that say how much it reads: maxOffsetsPerTrigger, …"),
    ] = field(default_factory=dict)


class NothingToInferError(Exception):
    """A topic has no record from which its fields could be inferred."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"the topic {topic!r} has no JSON object yet, so the fields of its table are not known: give the job its"
            " fields, or wait, because this is tried again"
        )


class KafkaToTable(SparkJob):
    """Copies Kafka topics into Delta, Iceberg or Parquet tables. Each topic is a stream.

    A row has the fields of its record's JSON object, or the record's ``key`` and ``value`` as bytes; and where it comes
    from: ``kafka_partition``, ``kafka_offset``, ``kafka_timestamp``. If the job is planned again after an interval, new
    topics that match the pattern get a stream, and no other stream is stopped.

    Spark needs its own Kafka connector, and the one of the tables' format (``spark.jars.packages`` of the workers).
    """

    config_schema = KafkaToTableConfig

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        if wrong := _wrong(job.config):
            raise PlanError(job.name, f"can't be made: {wrong}")
        try:
            return _planned(job.config)
        except _REFUSED as refused:
            raise PlanError(job.name, f"can't be made: {refused}") from refused

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        try:
            config = _complete(task.config)
        except _REFUSED as refused:
            raise PlanError(task.job, f"can't be carried out: {refused}") from refused
        keeps = Keeps(config["keeps"])
        table, kind = config["table"], config["format"]
        fields = "" if keeps is Keeps.BYTES else config.get("fields") or _known_fields(spark, config)
        rows = rows_of(_source(spark.readStream, config).load(), keeps, fields)
        task.fence()
        if not is_path(table):
            _have_table(spark, table, kind, rows)
            rows = _in_order(rows, spark.table(table))
        writer = rows.writeStream.format(kind).option("checkpointLocation", task.checkpoint_location)
        if kind == "delta":
            writer = writer.option("mergeSchema", "true")
        if every := config.get("every", _EVERY):
            writer = writer.trigger(processingTime=every)
        else:
            writer = writer.trigger(availableNow=True)
        return writer.start(table) if is_path(table) else writer.toTable(table)


def _planned(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The configs of the tasks.

    :raises KafkaClientError: for a cluster or an option that this worker does not allow
    :raises NotANameError: if ``table`` or ``dead_letters`` is neither a name nor a path
    :raises SameTableError: if two topics would have the same table
    """
    servers, topics = config["bootstrap_servers"], list(config.get("topics", ()))
    check_options(config.get("options", {}))
    for key in ("table", "dead_letters"):
        if template := config.get(key):
            _in_sql(key, template.replace(PLACE_OF_TOPIC, "topic"))
    client = client_for(servers, os.environ)
    if pattern := config.get("pattern"):
        topics += topics_like(pattern, servers, client.librdkafka)
    kept = ("format", "fields", "every", "options")
    common = {name: config[name] for name in kept if name in config} | {"servers": servers}
    return [{**common, **stream} for stream in _streams(dict.fromkeys(topics), config)]


def _complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a task, with all options of its source and quoted names of tables. All is checked again: a task's
    config need not be from a plan, for it is in a topic.

    :raises KafkaClientError: for a cluster or an option that this worker does not allow
    :raises NotANameError: for what is neither a table's name nor a path, and for a format that is none
    """
    if (kind := config["format"]) not in get_args(Format):
        raise NotANameError(f"format: {kind!r} is none of {', '.join(get_args(Format))}")
    options = config.get("options", {})
    check_options(options)
    return {
        **config,
        **{key: _in_sql(key, config[key]) for key in ("table", "rows")},
        "options": {**options, **client_for(config["servers"], os.environ).spark},
    }


def _in_sql(key: str, table: str) -> str:
    """:raises NotANameError: naming the key, if it is neither a path nor a name"""
    return table if is_path(table) else quoted_table(key, table)


def _wrong(config: Mapping[str, Any]) -> str:
    """What makes a plan impossible; empty: nothing."""
    if not config.get("topics") and not config.get("pattern"):
        return "neither topics nor a pattern says what to copy"
    if config["format"] == "iceberg" and any(is_path(config.get(name, "")) for name in ("table", "dead_letters")):
        return "an Iceberg table has a name, as in lake.raw.{topic}, and not a path"
    if config.get("dead_letters") and not config.get("fields"):
        return "dead letters need fields: without them, it would depend on the first records what is one"
    if config.get("value") == "bytes" and (config.get("fields") or config.get("dead_letters")):
        return "fields and dead letters are for values that are JSON objects"
    return ""


def _streams(topics: Mapping[str, None], config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """:raises SameTableError: if two topics would have the same table"""
    dead_letters = config.get("dead_letters", "")
    keeps = Keeps.BYTES if config.get("value") == "bytes" else Keeps.PARSED if dead_letters else Keeps.ALL
    tables = tables_of(topics, config["table"])
    others = tables_of(topics, dead_letters) if dead_letters else {}
    for topic in topics:
        stream = {"topic": topic, "rows": tables[topic], "table": tables[topic], "keeps": keeps.value}
        yield {**stream, "name": topic, "checkpoint_key": topic}
        if topic in others:
            letters = {"table": others[topic], "keeps": Keeps.OTHERS.value, "name": f"{topic} (dead letters)"}
            yield {**stream, **letters, "checkpoint_key": f"{topic}~dead-letters"}  # no topic has such a name


def _source(reader: Any, config: Mapping[str, Any]) -> Any:
    """:param reader: for a stream, or for what is there now"""
    options = {"startingOffsets": "earliest", **config.get("options", {})}
    options |= {"kafka.bootstrap.servers": config["servers"], "subscribe": config["topic"]}
    return reader.format("kafka").options(**options)


def _known_fields(spark: SparkSession, config: Mapping[str, Any]) -> str:
    """:raises NothingToInferError: if there is neither a table nor a record"""
    if schema := _schema_of(spark, config["rows"], config["format"]):
        return columns_of(one for one in schema if one.name not in POSITION)
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("value").cast("string")
    objects = _source(spark.read, config).load().select(text.alias("text")).where(text.startswith("{"))
    found = [row["text"] for row in objects.limit(_SAMPLE).collect()]
    if not found:
        raise NothingToInferError(config["topic"])
    return fields_of(spark, found)


def _schema_of(spark: SparkSession, table: str, kind: str) -> StructType | None:
    """None: there is no such table yet."""
    from pyspark.errors import AnalysisException

    if not is_path(table):
        return spark.table(table).schema if spark.catalog.tableExists(table) else None
    try:
        return spark.read.format(kind).load(table).schema
    except AnalysisException:  # each format has another one for it
        return None


def _have_table(spark: SparkSession, table: str, kind: str, rows: DataFrame) -> None:
    """Make the table, so that its fields are kept; or give it the columns that it lacks.

    :param table: its name, quoted
    """
    if (there := _schema_of(spark, table, kind)) is None:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns_of(rows.schema)}) USING {kind}")
    elif lacking := [one for one in rows.schema if one.name.lower() not in {old.name.lower() for old in there}]:
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns_of(lacking)})")


def _in_order(rows: DataFrame, table: DataFrame) -> DataFrame:
    """The rows with their columns in the order of the table, which Iceberg asks for. Those that were added later stand
    at its end.
    """
    place = {name.lower(): number for number, name in enumerate(table.columns)}
    return rows.select(*map(quoted, sorted(rows.columns, key=lambda name: place[name.lower()])))
