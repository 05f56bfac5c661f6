"""``cospark``, whose idle tasks are slow to stop: ``python -m benchmarks.slow_to_stop SECONDS ARGUMENT ...``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable

from airflow_provider.cli.main import main
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.worker.hands import in_process


def _slow(seconds: float) -> type[NoopRunner]:
    class SlowRunner(NoopRunner):
        async def stop(self, tasks: Iterable[TaskId], reason: str, *, timeout_s: float = 30.0) -> Tasks:
            await asyncio.sleep(seconds)
            return await super().stop(tasks, reason, timeout_s=timeout_s)

    return SlowRunner


if __name__ == "__main__":
    in_process.NoopRunner = _slow(float(sys.argv[1]))  # type: ignore[attr-defined]
    sys.exit(main(sys.argv[2:]))
