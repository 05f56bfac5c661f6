"""A small Spark program that makes namespaces for tables, or reads all tables of one and says what is in them:
``python -m benchmarks.topics.tables make|count SETTINGS.json OUTPUT NAMESPACE ...``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.topics.parts import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(settings: Path) -> SparkSession:
    """Of a plain program on this machine.

    :param settings: a file with Spark's settings, as JSON
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in json.loads(settings.read_text()).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _count(spark: SparkSession, namespace: str) -> dict[str, dict[str, Any]]:
    """The number of rows of each table, of different ones, and the lowest and highest number."""
    found = {}
    for row in spark.sql(f"SHOW TABLES IN {CATALOG}.{namespace}").collect():
        name = row["tableName"]
        counts = "count(*) AS rows, count(DISTINCT n) AS different, min(n) AS least, max(n) AS most"
        (told,) = spark.sql(f"SELECT {counts} FROM {CATALOG}.{namespace}.`{name}`").collect()
        found[name] = told.asDict()
    return found


def main(what: str, settings: str, output: str, *namespaces: str) -> None:
    spark = session(Path(settings))
    told: dict[str, Any] = {}
    for namespace in namespaces:
        if what == "make":
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{namespace}")
        else:
            told |= _count(spark, namespace)
    Path(output).write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
