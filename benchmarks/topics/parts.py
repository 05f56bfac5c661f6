"""The real parts of a lakehouse: Spark with its Kafka source, and Iceberg tables in a catalog of SQLite.

There is no Kafka source for the newest PySpark, which ``.venv`` has. ``make lake`` puts another one beside it, with the
jars: ``python -m benchmarks.topics.parts`` is its second half.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider.servers.jars import fetch_jars, pyspark_home

ROOT: Final = Path(__file__).parents[2]
_CACHE: Final = ROOT / ".cache"
_PYSPARK: Final = _CACHE / "lake" / "pyspark-4.1.1"
_KNOWN: Final = Path(__file__).with_name("jars.sha256")
_COORDINATES: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    "org.xerial:sqlite-jdbc:3.46.1.3",
)
CATALOG: Final = "lake"


class NoLakeError(Exception):
    """What the benchmark needs beside ``.venv`` is not there."""


def environment() -> dict[str, str]:
    """Of a process that imports this PySpark, and whatever this checkout has.

    :raises NoLakeError: if it is not there
    """
    if not (_PYSPARK / "pyspark" / "jars").is_dir():
        raise NoLakeError(
            "For the PySpark of .venv there is no Kafka source. Run `make lake`: it puts PySpark 4.1.1 into"
            f" {_PYSPARK.relative_to(ROOT)}, and the connectors of Kafka and Iceberg beside it (about 600 MB)"
        )
    path = os.pathsep.join(map(str, (_PYSPARK, ROOT, ROOT / "tests")))
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME"} | {"PYTHONPATH": path}


def jars() -> tuple[Path, ...]:
    """Those of the connectors and all that they need which this process's Spark does not have itself."""
    own = pyspark_home() / "jars"
    fetched = fetch_jars(*_COORDINATES, cache=_CACHE, known=_KNOWN)
    return tuple(jar for jar in fetched if not ((own / jar.name).exists() or (own / _artifact(jar)).exists()))


def _artifact(jar: Path) -> str:
    """The name of the jar without its group, which Ivy puts before it."""
    return jar.name.partition("_")[2]


def settings(folder: Path) -> Mapping[str, str]:
    """Of a Spark that reads topics, and whose catalog and tables are in the folder."""
    catalog = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": ",".join(map(str, jars())),
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=60000",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": f"file://{folder / 'tables'}",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        # Without a native Hadoop library, the default one starts a process for each file that it renames.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }


if __name__ == "__main__":
    print(*(jar.name for jar in jars()), sep="\n")
