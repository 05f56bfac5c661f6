"""``cospark`` with its event loop measured: ``python -m benchmarks.overloaded FIGURES.json worker GROUP ...``."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

from airflow_provider.cli.main import main as cospark
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.worker import Worker
from benchmarks.gauges import rss_mb

_TICK_S: Final = 0.05
"""In seconds, long enough that measuring does not keep twenty such processes on two cores busy."""
_TICKS_WRITTEN: Final = 40


async def _watch(path: Path) -> None:
    """Write from time to time how late the loop has been so far, as this process may be killed."""
    worst, ticks = 0.0, 0
    while True:
        due = time.monotonic() + _TICK_S
        await asyncio.sleep(_TICK_S)
        late = time.monotonic() - due
        ticks += 1
        if late > worst or ticks % _TICKS_WRITTEN == 0:
            worst = max(worst, late)
            figures = {"late_ms": worst * 1000, "rss_mb": rss_mb(), "cpu_s": time.process_time()}
            path.with_suffix(".new").write_text(json.dumps(figures))
            path.with_suffix(".new").rename(path)


def main() -> int:
    path, run = Path(sys.argv[1]), Worker.run

    async def watched(worker: Worker) -> Outcome:
        watching = asyncio.ensure_future(_watch(path))
        try:
            return await run(worker)
        finally:
            watching.cancel()

    setattr(Worker, "run", watched)  # noqa: B010
    return cospark(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
