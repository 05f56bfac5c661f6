"""The peer: tasks of given lengths in threads of one plain PySpark script. ``python -m benchmarks.skew_script SLOTS``.

Reads the lengths (a JSON list of seconds) from standard input. Each thread takes the next task of the plan when it has
finished one. Prints how long Spark took to start, and how long the tasks took.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession


def main(slots: int) -> None:
    times_s = json.load(sys.stdin)
    began = time.monotonic()
    spark = SparkSession.builder.master(f"local[{slots}]").config("spark.ui.enabled", "false").getOrCreate()
    spark.range(1).count()
    started = time.monotonic()
    with ThreadPoolExecutor(slots) as pool:
        list(pool.map(time.sleep, times_s))
    print(json.dumps({"start_s": started - began, "tasks_s": time.monotonic() - started}))
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
