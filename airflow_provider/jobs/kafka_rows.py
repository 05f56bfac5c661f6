"""What becomes of a record of Kafka: a row of its topic's table, or a dead letter."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_POSITION: Final = ("partition", "offset", "timestamp")
_CORRUPT: Final = "_corrupt"
POSITION: Final = tuple(f"kafka_{name}" for name in _POSITION)
"""The columns by which each row can be found in its topic. Iceberg reserves ``_partition``."""


class Keeps(str, Enum):
    """Which records of its topic a stream keeps."""

    ALL = "all"
    """As rows. A record that is no such JSON object makes the stream fail."""
    PARSED = "parsed"
    """As rows; the others are kept by another stream."""
    OTHERS = "others"
    """Those that are no such JSON objects, as they are."""
    BYTES = "bytes"
    """All, as they are."""


def rows_of(records: DataFrame, keeps: Keeps, fields: str) -> DataFrame:
    """The rows of a table.

    :param records: with the columns of Spark's Kafka source
    :param fields: of the JSON objects, as in ``id LONG, name STRING``
    """
    if keeps is Keeps.BYTES:
        return records.select("key", "value", *_position())
    parsed = _parsed(fields, strictly=keeps is Keeps.ALL)
    if keeps is Keeps.ALL:
        return _spread(records, parsed)
    is_object = parsed.isNotNull() & parsed.getField(_CORRUPT).isNull()
    if keeps is Keeps.PARSED:
        return _spread(records.where(is_object), parsed).drop(_CORRUPT)
    return records.where(~is_object).select("key", "value", *_position())


def fields_of(spark: SparkSession, objects: list[str]) -> str:
    """The fields that these JSON objects have, all taken together."""
    from pyspark.sql import functions as F  # noqa: N812

    array = F.schema_of_json(F.lit(f"[{','.join(objects)}]"))
    (row,) = spark.range(1).select(array).collect()
    return str(row[0]).removeprefix("ARRAY<STRUCT<").removesuffix(">>")


def _parsed(fields: str, *, strictly: bool) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    value = F.col("value").cast("string")
    if strictly:
        return F.from_json(value, f"STRUCT<{fields}>", {"mode": "FAILFAST"})
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(value, f"STRUCT<{fields}, {_CORRUPT}: STRING>", options)


def _spread(records: DataFrame, parsed: Column) -> DataFrame:
    return records.select(parsed.alias("_parsed"), *_position()).select("_parsed.*", *POSITION)


def _position() -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.col(name).alias(f"kafka_{name}") for name in _POSITION]
