"""A Spark application like any other: makes up sales of a region, and writes them.

Usage: ``sales.py REGION ROWS FOLDER``
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

region, rows, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
sales = spark.range(int(rows)).selectExpr("id % 10 AS shop", "1 + id % 7 AS pieces")
# It may run twice: this replaces what it has written.
sales.write.mode("overwrite").parquet(f"{folder}/{region}")
print(f"{rows} sales of {region} are in {folder}")
spark.stop()
