"""Two workers for the streams of each way to run them, with the operator's defaults for everything else."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG

from airflow_provider.operators.spark_worker import SparkWorkerOperator

_SLOTS: Final = int(os.environ["KILL_SLOTS"])
_ON_SERVER: Final = {"spark_conn_id": "spark_connect_default"}
_WAYS: Final[dict[str, dict[str, Any]]] = {
    "detached": _ON_SERVER,
    "attached": {**_ON_SERVER, "detach": False},
    "own_spark": {},
}

for way, options in _WAYS.items():
    with DAG(way, schedule=None):
        SparkWorkerOperator.partial(
            task_id="worker",
            group=way,
            until="forever",
            allowed_entry_points="benchmarks",
            checkpoint_root=f"{os.environ['KILL_FOLDER']}/{way}",
            spark_conf={"spark.sql.streaming.minBatchesToRetain": 100_000},
            progress_interval=3,  # a report shows that a stream is watched
            retries=9,
            retry_delay=timedelta(seconds=1),
            **options,
        ).expand(slots=[_SLOTS, _SLOTS])
