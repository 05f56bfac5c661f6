"""Java Connect workers: one more joins a balanced group. Each is a JVM of its own, with Connect's settings."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.joined import Joined, Step, when_joined

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "peers"))

from connect_workers import ConnectWorkers, connect_workers

SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 3_000
_GROUP: Final = "java-connect"


async def java_joins(bootstrap_servers: str, folder: Path, *, workers: int, jobs: int, repeats: int) -> list[Joined]:
    """Let a worker join a group of ``workers`` with ``jobs`` idle connectors of one task each, ``repeats`` times.

    :param folder: for the workers' logs
    """
    units = 2 * jobs
    with ExitStack() as stack:
        processes = []
        for number in range(workers + 1):
            (folder / f"java-{number}").mkdir(exist_ok=True)
            # With the optimizing compiler, as a user's JVM.
            process = connect_workers(folder / "classes", folder / f"java-{number}", "-XX:TieredStopAtLevel=4")
            processes.append(stack.enter_context(process))
        *before, newcomer = processes

        async def start(number: int) -> None:
            processes[number].start(
                *(f"java-{number}", bootstrap_servers, _GROUP),
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                scheduled_rebalance_max_delay_ms=0,
            )
            await processes[number].started(f"java-{number}")

        async def until_even(group: Sequence[ConnectWorkers], what: str) -> None:
            for one in group:
                await one.until(lambda: _even(group, units), what)

        for number in range(workers):
            await start(number)
        for number in range(jobs):
            await asyncio.to_thread(before[0].configure, "java-0", f"job-{number}", tasks_max=1)
        await until_even(before, "everything runs")
        joins = []
        for _ in range(repeats):
            await asyncio.sleep(1 + HEARTBEAT_MS / 1000 * random.random())
            begin = [len(process.said) for process in processes]
            joined_ms = await when_joined(bootstrap_servers, _GROUP, lambda: start(workers))
            await until_even(processes, "the newcomer has its share")
            said = [each for process, first in zip(processes, begin, strict=True) for each in process.said[first:]]
            steps = [Step(each.task, each.event == "started", each.at_ms) for each in said if "job" in each.more]
            joins.append(Joined.of(joined_ms, steps))
            newcomer.stop(f"java-{workers}")
            await newcomer.stopped(f"java-{workers}")
            await until_even(before, "everything runs where it ran before")
    return joins


def _even(group: Sequence[ConnectWorkers], units: int) -> bool:
    """Whether connectors and tasks are balanced, each for itself."""
    running = [worker.running() for worker in group]
    counts = [[sum(task.is_planner is connectors for task in each) for each in running] for connectors in (True, False)]
    return sum(map(sum, counts)) == units and all(max(each) - min(each) <= 1 for each in counts)
