"""The first batch of a stream in a new JVM, and after a learner has made it ready for sinks. Needs ``make lake``.

Each start is a process of its own, in turns: a Spark with two cores, and a stream of five small files into a table of
Iceberg or Delta that exists (Delta's connector is fetched with the first run), or into a new folder of Parquet files.
"""

from __future__ import annotations

import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.servers.jars import fetch_jars
from airflow_provider.spark.local.streaming import sinks
from airflow_provider.spark.local.streaming.sinks import warm_sinks
from benchmarks.topics.parts import CATALOG, ROOT, environment, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REPEATS: Final = 3
_LONGEST_S: Final = 300
_LOOK_S: Final = 0.02
_FILES: Final = 5
_KINDS: Final = ("parquet", "iceberg", "delta")
_DELTA: Final = "io.delta:delta-spark_4.1_2.13:4.1.0"
_KNOWN: Final = Path(__file__).with_name("first_batch.sha256")
_COLD, _WARM, _PREPARE = "cold", "warm", "prepare"


def run(folder: Path) -> Mapping[str, Any]:
    """Print and return medians, in seconds."""
    figures = {}
    for kind in _KINDS:
        with TemporaryDirectory(dir=folder) as lake:
            _child(_PREPARE, kind, lake)
            turns = [(_child(_COLD, kind, lake), _child(_WARM, kind, lake)) for _ in range(_REPEATS)]
        cold_s = statistics.median(cold["first_s"] for cold, _ in turns)
        warm_s = statistics.median(warm["first_s"] for _, warm in turns)
        took_s = statistics.median(warm["warm_up_s"] for _, warm in turns)
        figures[kind] = {"cold_s": cold_s, "warm_s": warm_s, "ratio": warm_s / cold_s, "warm_up_s": took_s}
        print(
            f"{kind}: the first batch takes {cold_s:.1f} s in a new JVM, {warm_s:.1f} s after a warm-up of"
            f" {took_s:.1f} s (ratio {warm_s / cold_s:.2f})",
            flush=True,
        )
    return figures


def _child(mode: str, kind: str, lake: str) -> dict[str, float]:
    program = (sys.executable, "-m", "benchmarks.first_batch", mode, kind, lake)
    done = subprocess.run(program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, timeout=_LONGEST_S, check=True)
    return dict(json.loads(done.stdout)) if done.stdout else {}


def _spark(kind: str, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    conf = dict(settings(folder))
    if kind != "iceberg":
        conf = {key: value for key, value in conf.items() if not key.startswith("spark.sql.catalog.")}
    if kind == "delta":
        jars = fetch_jars(_DELTA, cache=ROOT / ".cache", known=_KNOWN)
        conf["spark.jars"] = ",".join(map(str, jars))
        conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _table(kind: str, folder: Path) -> str:
    """A folder for files has its own list of batches, so each stream gets a new one."""
    names = {"iceberg": f"{CATALOG}.raw.rows", "delta": str(folder / "delta")}
    return names.get(kind, str(folder / f"files-{time.time_ns()}"))


def _prepare(spark: SparkSession, kind: str, folder: Path) -> None:
    rows = spark.range(10 * _FILES).selectExpr("id", "string(id) AS name")
    rows.repartition(_FILES).write.json(str(folder / "rows"))
    if kind == "iceberg":
        spark.sql(f"CREATE NAMESPACE {CATALOG}.raw")
        rows.writeTo(_table(kind, folder)).using(kind).create()
    else:
        rows.write.format(kind).save(_table(kind, folder))


def _measure(spark: SparkSession, kind: str, folder: Path, *, warm: bool) -> Mapping[str, float]:
    began = time.monotonic()
    if warm:
        for _ in warm_sinks(spark.newSession(), str(folder / "checkpoints" / "0"), _sleep):
            pass
        if left := [*(folder / "checkpoints").iterdir()]:
            raise RuntimeError(f"it has left {left}")
    ready = time.monotonic()
    rows = spark.readStream.schema("id LONG, name STRING").option("maxFilesPerTrigger", 1).json(str(folder / "rows"))
    writer = rows.writeStream.format(kind).option("checkpointLocation", str(folder / f"checkpoint-{time.time_ns()}"))
    table = _table(kind, folder)
    query = writer.toTable(table) if kind == "iceberg" else writer.start(table)
    while not any(progress["numInputRows"] for progress in query.recentProgress):
        if (failed := query.exception()) is not None:
            raise failed
        time.sleep(_LOOK_S)
    first_s = time.monotonic() - ready
    query.stop()
    return {"warm_up_s": ready - began, "first_s": first_s}


class _NoFailure(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError(record.getMessage())


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _main(mode: str, kind: str, lake: str) -> None:
    logging.getLogger(sinks.__name__).addHandler(_NoFailure(logging.WARNING))
    folder = Path(lake)
    spark = _spark(kind, folder)
    if mode == _PREPARE:
        _prepare(spark, kind, folder)
    else:
        print(json.dumps(_measure(spark, kind, folder, warm=mode == _WARM)))
    spark.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
