"""Another one: adds up what is sold in a region, and fails if nothing is.

Usage: ``totals.py REGION FOLDER``
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

region, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
totals = spark.read.parquet(f"{folder}/{region}").groupBy("shop").sum("pieces").collect()
spark.stop()
for shop, pieces in sorted(totals):
    print(f"shop {shop} of {region} has sold {pieces}")
sys.exit(0 if totals else 1)
