"""Starts Spark's JVMs quickly in tests: with an archive of loaded classes, and only the C1 compiler.

Each of them lives for seconds, and spends most of its CPU time on loading and compiling Spark: 15 s, and 4 s this way.
A streaming batch costs half as much (0.2 s of a core) with the other manager of checkpoint files: the default one
starts a process for each file that it renames, as there is no native Hadoop library.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from airflow_provider.servers.jars import default_cache
from airflow_provider.servers.java import ClassArchive, find_java
from airflow_provider.spark.local.pyspark_internals import home_of_spark

_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SEEN_LATER: Final = "-Dspark.sql.streaming.pollingDelay=100ms"
"""How often an idle stream looks for new input; by default a hundred times a second."""

_PROGRAM: Final = """
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.master("local[1]").config("spark.driver.host", "127.0.0.1").getOrCreate()
folder = sys.argv[1]
rows = spark.range(10).selectExpr("id", "id % 2 AS half")
rows.write.json(f"{folder}/json")
rows.write.parquet(f"{folder}/parquet")
read = spark.read.schema("id long, half long").json(f"{folder}/json")
read.groupBy("half").count().collect()
spark.read.parquet(f"{folder}/parquet").select(udf(abs, "long")("id")).collect()
stream = spark.readStream.schema("id long, half long").json(f"{folder}/json").writeStream.format("json")
stream.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/copied").processAllAvailable()
jvm = SparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
jvm.wait()
"""
"""Does a little of what the tests' jobs do, and waits for the JVM to end, which then writes the archive."""


def have_spark_start_quickly() -> None:
    """Set it up for this process and its children. Without an archive it makes one, which takes half a minute."""
    os.environ["SPARK_LAUNCHER_OPTS"] = launcher_options()
    options = (_SEEN_LATER, f"-Dspark.sql.streaming.checkpointFileManagerClass={_checkpoint_files()}")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((*quick_jvm(), *options))


@functools.cache
def _checkpoint_files() -> str:
    """The class, whose package depends on Spark's version."""
    (jar,) = Path(home_of_spark()).glob("jars/spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        (file,) = (name for name in classes.namelist() if name.endswith("/FileSystemBasedCheckpointFileManager.class"))
    return file.removesuffix(".class").replace("/", ".")


def launcher_options() -> str:
    """Options of Spark's launcher, the JVM that works out the command of the real one."""
    return " ".join(_JVM)


@functools.cache
def quick_jvm() -> tuple[str, ...]:
    """Options of a JVM with Spark's jars as its class path."""
    jars = Path(home_of_spark()) / "jars"
    archive = ClassArchive.of(find_java(), f"{jars} {version('pyspark')}", cache=default_cache())
    if not archive.path.exists():
        _make(archive)
    return (*_JVM, *archive.options())


def _make(archive: ClassArchive) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "classes.jsa"
        options = " ".join((*_JVM, *archive.options(write_to=written)))
        made = subprocess.run(
            [sys.executable, "-c", _PROGRAM, folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"Spark did not start:\n{made.stdout}")
        archive.keep(written)
