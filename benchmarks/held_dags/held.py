"""Groups of deferred workers, each a mapped task in a DAG of its own."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from benchmarks.held import HeldWorkerOperator

WORKERS = int(os.environ["BENCH_WORKERS"])

for number in range(int(os.environ["BENCH_GROUPS"])):
    with DAG(f"held-{number}", schedule=None, max_active_tasks=WORKERS):
        HeldWorkerOperator.partial(
            task_id="worker",
            group=f"held-{number}",
            runner="noop",
            until="forever",
            allowed_entry_points=["jobs"],
            linger=1,
            retries=0,
        ).expand(slots=[2] * WORKERS)
