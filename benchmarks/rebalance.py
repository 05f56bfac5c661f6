"""A second worker joins a balanced group of one: real Java Connect workers against ours, on the same real broker.

Both sides have 26 idle units (13 connectors with a task each in Connect, 13 jobs with two tasks each in ours), and the
same heartbeat interval and session timeout. Each worker is a process of its own. The second one joins at a random time,
when the group has been quiet for long enough that ours, too, heartbeats at its full interval.

Both sides are measured in the same way. *The join* is when the coordinator reports the group as no longer stable.
*Starts and stops* are recorded by the tasks themselves, by the wall clock (Java: ``tests/peers/java/IdleSource.java``;
ours: the group's events). A moved task *stands still* from its stop to its start elsewhere. The time to *balance* is
from the join to the last start. Its part until the first stop is the first worker's heartbeat (at most an interval, on
both sides), which tells it of the join.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind
from benchmarks.connect_joins import HEARTBEAT_MS, SESSION_MS, java_joins
from benchmarks.joined import Fleet, Joined, moves_of, when_joined

_JOBS: Final = 13
_UNITS: Final = 2 * _JOBS
_REPEATS: Final = 5
_SPREAD_S: Final = HEARTBEAT_MS / 1000
# Ours heartbeats fast after a round, and is back at the full interval after three heartbeats.
_QUIET_S: Final = 3 * HEARTBEAT_MS / 1000 + 1
_GOAL_STOOD: Final = 0.1
_GOAL_BALANCED: Final = 0.5


def run(folder: Path) -> dict[str, Any]:
    """Measure both sides, and print them next to each other.

    :param folder: for the workers' logs
    """
    return asyncio.run(_run(folder))


async def _run(folder: Path) -> dict[str, Any]:
    with LocalBroker() as broker:
        java = await java_joins(broker.bootstrap_servers, folder, workers=1, jobs=_JOBS, repeats=_REPEATS)
        ours = await _ours(broker.bootstrap_servers, folder)
    return _report(java, ours)


async def _ours(bootstrap_servers: str, folder: Path) -> list[Joined]:
    options = {
        "--session-timeout-ms": SESSION_MS,
        "--heartbeat-interval-ms": HEARTBEAT_MS,
        "--lease-margin-ms": 2_000,
        "--max-delay-ms": 0,
        "--runner": "noop",
        "--slots": 100,
    }
    joins = []
    flat = (str(part) for option in options.items() for part in option)
    async with Fleet(bootstrap_servers, "ours", folder, *flat) as fleet:
        for number in range(_JOBS):
            await fleet.submit(f"job-{number}", tasks=2, kind=TaskKind.STREAMING)
        fleet.start("ours-1")
        await fleet.balanced("ours-1")
        for _ in range(_REPEATS):
            await asyncio.sleep(_QUIET_S + _SPREAD_S * random.random())

            async def start() -> None:
                fleet.start("ours-2")

            joined_ms = await when_joined(bootstrap_servers, "ours", start)
            await fleet.balanced("ours-1", "ours-2")
            joins.append(Joined.of(joined_ms, await moves_of(fleet)))
            fleet.send("ours-2", signal.SIGTERM)
            await asyncio.to_thread(fleet.wait_for_end, "ours-2")
            await fleet.balanced("ours-1")
    return joins


def _report(java: list[Joined], ours: list[Joined]) -> dict[str, Any]:
    figures: Mapping[str, Mapping[str, float]] = {
        "a moved task stands still": _compared(
            *([ms for join in joins for ms in join.stood] for joins in (java, ours)), goal=_GOAL_STOOD
        ),
        "from the join to the balance": _compared(
            *([join.balanced for join in joins] for joins in (java, ours)), goal=_GOAL_BALANCED
        ),
        "of it, until the first worker hears of it": _compared(
            *([join.heard for join in joins] for joins in (java, ours)), goal=None
        ),
    }
    print(f"medians of {_REPEATS} joins, {_UNITS} tasks, heartbeat {HEARTBEAT_MS} ms, session {SESSION_MS} ms")
    for name, figure in figures.items():
        goal = f" (goal: {figure['goal']:.2f})" if "goal" in figure else ""
        print(
            f"{name:42} Connect {figure['connect_ms']:6.0f} ms, ours {figure['ours_ms']:6.0f} ms:"
            f" {figure['ratio']:.3f}{goal}"
        )
    return {
        "figures": figures,
        "connect": [asdict(join) for join in java],
        "ours": [asdict(join) for join in ours],
    }


def _compared(java: Sequence[int], ours: Sequence[int], *, goal: float | None) -> dict[str, float]:
    connect_ms, ours_ms = statistics.median(java), statistics.median(ours)
    figure = {"connect_ms": connect_ms, "ours_ms": ours_ms, "ratio": round(ours_ms / connect_ms, 4)}
    return figure if goal is None else {**figure, "goal": goal}
