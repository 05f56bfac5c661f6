"""The peer: the same work in plain PySpark, with one session and two threads. ``python -m benchmarks.plain IN OUT``."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from benchmarks.jobs import MONTHS, do_month


def main(source: str, output: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    with ThreadPoolExecutor(2) as pool:
        rows = sum(pool.map(lambda month: do_month(spark, source, output, month), MONTHS))
    print(f"{rows} rows")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
