"""Tasks of given lengths, each a mapped Airflow task without a session: the time that Airflow itself takes for them."""

from __future__ import annotations

import json
import os
import time

from airflow.sdk import DAG, task

with DAG("skewed", schedule=None, max_active_tasks=int(os.environ["BENCH_SLOTS"])):

    @task
    def work(seconds: float) -> None:
        time.sleep(seconds)

    work.expand(seconds=json.loads(os.environ["BENCH_SECONDS"]))
