"""The cost of a process with an event loop: lateness of the loop, processor time, memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

_TICK_S: Final = 0.005


@dataclass(slots=True, kw_only=True)
class Gauged:
    """Measurements of one period.

    :param late_ms: the worst lateness of the event loop, including the time for which others kept it from a processor
    :param busy_ms: the most processor time between two ticks: the part of the lateness that the process itself caused
    :param late_99_ms: the worst of 99 in 100 ticks
    :param cpu: the share of a core that the process took, all its threads together
    :param loop_cpu: the same for the event loop's thread alone
    :param rss_mb: its memory at the end
    """

    seconds: float = 0.0
    late_ms: float = 0.0
    busy_ms: float = 0.0
    late_99_ms: float = 0.0
    cpu: float = 0.0
    loop_cpu: float = 0.0
    rss_mb: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


@asynccontextmanager
async def gauged() -> AsyncIterator[Gauged]:
    """Measure the block; the figures are complete at its end."""
    figures, lateness = Gauged(), [0.0]
    ticking = asyncio.ensure_future(_tick(figures, lateness))
    began, cpu, loop_cpu = time.monotonic(), time.process_time(), time.thread_time()
    try:
        yield figures
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        figures.seconds = time.monotonic() - began
        figures.cpu = (time.process_time() - cpu) / figures.seconds
        figures.loop_cpu = (time.thread_time() - loop_cpu) / figures.seconds
        lateness.sort()
        figures.late_ms = lateness[-1] * 1000
        figures.late_99_ms = lateness[int(len(lateness) * 0.99)] * 1000
        figures.rss_mb = rss_mb()


async def _tick(figures: Gauged, lateness: list[float]) -> None:
    while True:
        due, used = time.monotonic() + _TICK_S, time.thread_time()
        await asyncio.sleep(_TICK_S)
        lateness.append(time.monotonic() - due)
        figures.busy_ms = max(figures.busy_ms, (time.thread_time() - used) * 1000)


def put_first(pid: int) -> None:
    """Give all threads of a process the highest priority, if allowed, so that other processes affect it less."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), -20)


def rss_mb() -> float:
    """The present memory of this process."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))
