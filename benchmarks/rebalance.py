"""A second worker joins a balanced group of one: real Java Connect workers against ours, on the same real broker.

Both sides have 26 things to run, all of them idle: 13 connectors with a task each in Connect, 13 jobs with two tasks
each in ours; and the same heartbeat interval and session. Each worker is a process of its own. The second one joins
when the group has been quiet for long enough that ours, too, heartbeat in their full interval, at a random time.

Measured on both sides from the same things: *the join* is when the coordinator says that the group is no longer stable;
*starts and stops* are written by the tasks themselves, by the wall clock (Java: ``tests/peers/java/IdleSource.java``;
ours: the group's events). A moved task *stands still* from its stop to its start elsewhere. The time to *balance* is
that from the join to the last start. The part of it until the first stop is the first worker's heartbeat (at most an
interval, on both sides alike): it hears of the join only then.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import TaskKind, TaskState

_TESTS: Final = Path(__file__).parent.parent / "tests"
sys.path[:0] = [str(_TESTS), str(_TESTS / "peers")]

from connect_workers import ConnectWorkers, connect_workers  # noqa: E402
from fleet import Fleet  # noqa: E402

_JOBS: Final = 13
_UNITS: Final = 2 * _JOBS
_SESSION_MS: Final = 10_000
_HEARTBEAT_MS: Final = 3_000
_REPEATS: Final = 5
_POLL_S: Final = 0.003
_SPREAD_S: Final = _HEARTBEAT_MS / 1000
# Ours heartbeat fast after a round, and are back at the full interval after three of them.
_QUIET_S: Final = 3 * _HEARTBEAT_MS / 1000 + 1
_GOAL_STOOD: Final = 0.1
_GOAL_BALANCED: Final = 0.5


@dataclass(frozen=True)
class Step:
    """A task started or stopped somewhere, at a time of the wall clock."""

    task: TaskId
    started: bool
    at_ms: int


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What one join cost, in milliseconds.

    :param heard: until the first task was stopped
    :param balanced: until the last moved task had started
    :param stood: for how long each moved task stood still
    """

    heard: int
    balanced: int
    stood: tuple[int, ...]

    @classmethod
    def of(cls, joined_ms: int, steps: Sequence[Step]) -> Joined:
        later = [step for step in steps if step.at_ms >= joined_ms]
        stops = {step.task: step.at_ms for step in later if not step.started}
        starts = {step.task: step.at_ms for step in later if step.started}
        if not stops or stops.keys() != starts.keys():
            raise RuntimeError(f"what stopped and what started are not the same: {later}")
        return cls(
            heard=min(stops.values()) - joined_ms,
            balanced=max(starts.values()) - joined_ms,
            stood=tuple(sorted(starts[task] - stopped for task, stopped in stops.items())),
        )


def run(folder: Path) -> dict[str, Any]:
    """Measure both sides and print them side by side.

    :param folder: for the workers' logs
    """
    return asyncio.run(_run(folder))


async def _run(folder: Path) -> dict[str, Any]:
    with LocalBroker() as broker:
        java = await _java(broker.bootstrap_servers, folder)
        ours = await _ours(broker.bootstrap_servers, folder)
    return _report(java, ours)


async def _java(bootstrap_servers: str, folder: Path) -> list[Joined]:
    group = "connect"
    with ExitStack() as stack:
        processes = []
        for name in ("java-1", "java-2"):
            (folder / name).mkdir(exist_ok=True)
            # As a user's JVM: with its optimizing compiler.
            process = connect_workers(folder / "classes", folder / name, "-XX:TieredStopAtLevel=4")
            processes.append(stack.enter_context(process))
        first, second = processes

        async def start(worker: ConnectWorkers, name: str) -> None:
            worker.start(
                *(name, bootstrap_servers, group),
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=_HEARTBEAT_MS,
                scheduled_rebalance_max_delay_ms=0,
            )
            await worker.started(name)

        await start(first, "java-1")
        for number in range(_JOBS):
            await asyncio.to_thread(first.configure, "java-1", f"job-{number}", tasks_max=1)
        await first.until(lambda: len(first.running()) == _UNITS, "everything runs")
        joins = []
        for _ in range(_REPEATS):
            await asyncio.sleep(1 + _SPREAD_S * random.random())
            begin = len(first.said), len(second.said)
            joined_ms = await _join(bootstrap_servers, group, lambda: start(second, "java-2"))
            await second.until(lambda: _halved(first, second), "half of everything runs in the second")
            said = first.said[begin[0] :] + second.said[begin[1] :]
            steps = [Step(each.task, each.event == "started", each.at_ms) for each in said if "job" in each.more]
            joins.append(Joined.of(joined_ms, steps))
            second.stop("java-2")
            await second.stopped("java-2")
            await first.until(lambda: len(first.running()) == _UNITS, "everything runs in the first again")
    return joins


def _halved(first: ConnectWorkers, second: ConnectWorkers) -> bool:
    """Connectors and tasks are balanced apart."""
    counts = [
        sum(task.is_planner is connectors for task in worker.running())
        for worker in (first, second)
        for connectors in (True, False)
    ]
    return sum(counts) == _UNITS and min(counts) == _JOBS // 2


async def _ours(bootstrap_servers: str, folder: Path) -> list[Joined]:
    options = {
        "--session-timeout-ms": _SESSION_MS,
        "--heartbeat-interval-ms": _HEARTBEAT_MS,
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

            joined_ms = await _join(bootstrap_servers, "ours", start)
            await fleet.balanced("ours-1", "ours-2")
            joins.append(Joined.of(joined_ms, await moves_of(fleet)))
            fleet.send("ours-2", signal.SIGTERM)
            await asyncio.to_thread(fleet.wait_for_end, "ours-2")
            await fleet.balanced("ours-1")
    return joins


async def moves_of(fleet: Fleet) -> list[Step]:
    """Every start and stop of a task so far, but for those of planners."""
    steps = []
    for told in await fleet.steps():
        if told.task.is_planner:
            continue
        if told.state is TaskState.RUNNING and told.started_at_ms is not None:
            steps.append(Step(told.task, started=True, at_ms=told.started_at_ms))
        elif told.state is TaskState.STOPPED and told.finished_at_ms is not None:
            steps.append(Step(told.task, started=False, at_ms=told.finished_at_ms))
    return steps


async def _join(bootstrap_servers: str, group: str, start: Callable[[], Awaitable[None]]) -> int:
    """Start the second worker.

    :return: when the coordinator had its JoinGroup, by the wall clock in milliseconds
    """
    settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="benchmarks")
    async with GroupTransport(settings) as transport:
        starting = asyncio.ensure_future(start())
        while (await transport.describe([group]))[0].state == "Stable":  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(_POLL_S)
        joined_ms = wall_ms()
        await starting
    return joined_ms


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
    print(f"medians of {_REPEATS} joins, {_UNITS} tasks, heartbeat {_HEARTBEAT_MS} ms, session {_SESSION_MS} ms")
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
