"""A worker joins a balanced group of two: a declarative one, a classic one, and Java Connect, on the same real broker.

All have 24 idle units (Connect: 12 connectors with a task each), and the same heartbeat interval. Each worker is a
process of its own, and those of the declarative group also coordinate it. *The join* is when the worker writes into the
group's topics that it joins (Connect: when the broker reports the group as no longer stable). Starts and stops are
taken from the group's events, by the wall clock. A moved task *stands still* from its stop to its start elsewhere; the
group is at *balance* when the last moved task has started.
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
from airflow_provider.state.records import TaskKind, TopicNames, WorkerPhase, decode
from benchmarks.connect_joins import HEARTBEAT_MS, java_joins
from benchmarks.joined import Fleet, Joined, moves_of
from benchmarks.overload import records_of

TASKS: Final = 24
_REPEATS: Final = 4
_GOAL_BALANCED_MS: Final = 250
_GOAL_STOOD_MS: Final = 50
_GOAL_OF_CONNECT: Final = 0.1
QUIET_S: Final = 3 * HEARTBEAT_MS / 1000 + 1
OPTIONS: Final = (
    *("--session-timeout-ms", "15000", "--heartbeat-interval-ms", str(HEARTBEAT_MS), "--lease-margin-ms", "2000"),
    *("--max-delay-ms", "0", "--runner", "noop", "--slots", "100"),
)
_NEWCOMER: Final = "w3"


def run(folder: Path) -> dict[str, Any]:
    """Measure all, and print them next to each other.

    :param folder: for the workers' logs
    """
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        sides = {name: asyncio.run(_joins(servers, name, folder)) for name in ("classic", "connect")}
        java = java_joins(servers, folder, workers=2, jobs=TASKS // 2, repeats=_REPEATS)
        sides["Java Connect"] = asyncio.run(java)
    stood = {name: [ms for join in joins for ms in join.stood] for name, joins in sides.items()}
    balanced = {name: [join.balanced for join in joins] for name, joins in sides.items()}
    heard = {name: [join.heard for join in joins] for name, joins in sides.items()}
    print(f"medians (and worst) of {_REPEATS} joins, {TASKS} tasks, heartbeat {HEARTBEAT_MS} ms")
    _show("a moved task stands still", stood, f"goal {_GOAL_STOOD_MS} ms")
    of_connect = statistics.median(balanced["connect"]) / statistics.median(balanced["Java Connect"])
    goal = f"goal {_GOAL_BALANCED_MS} ms; {of_connect:.3f} of Java Connect, goal {_GOAL_OF_CONNECT:g}"
    _show("from the join to the balance", balanced, goal)
    _show("of it, until the first task stops", heard)
    figures = {"stood": stood, "balanced": balanced, "heard": heard}
    return {
        "medians_ms": {
            what: {name: statistics.median(ms) for name, ms in figure.items()} for what, figure in figures.items()
        },
        "of_java_connect": round(of_connect, 4),
        **{name: [asdict(join) for join in joins] for name, joins in sides.items()},
    }


def _show(what: str, figure: Mapping[str, Sequence[int]], goal: str = "") -> None:
    words = ", ".join(f"{name} {statistics.median(ms):.0f} ms ({max(ms)} ms)" for name, ms in figure.items())
    print(f"{what:34} {words}" + (f" ({goal})" if goal else ""))


async def _joins(bootstrap_servers: str, protocol: str, folder: Path) -> list[Joined]:
    place = folder / protocol
    place.mkdir(exist_ok=True)
    joins = []
    async with Fleet(bootstrap_servers, protocol, place, *OPTIONS, "--group-protocol", protocol) as fleet:
        await fleet.submit("job", tasks=TASKS, kind=TaskKind.STREAMING)
        for name in ("w1", "w2"):
            fleet.start(name)
        await fleet.balanced("w1", "w2")
        for _ in range(_REPEATS):
            await asyncio.sleep(QUIET_S + random.random() * HEARTBEAT_MS / 1000)
            fleet.start(_NEWCOMER)
            await fleet.balanced("w1", "w2", _NEWCOMER)
            joined_ms = await asyncio.to_thread(wanted_in_ms, fleet, _NEWCOMER)
            joins.append(Joined.of(joined_ms, await moves_of(fleet)))
            fleet.send(_NEWCOMER, signal.SIGTERM)
            await fleet.ended(_NEWCOMER)
            await fleet.balanced("w1", "w2")
    return joins


def wanted_in_ms(fleet: Fleet, worker: str) -> int:
    """When the worker last wrote that it joins, by the wall clock. The newest record may not have that any more."""
    topic, key = TopicNames.of(fleet.group_id).status, f"worker:{worker}"
    records = records_of(fleet.settings, topic)
    joining = (value is not None and (at_ms, decode(value)) for name, value, at_ms in records if name == key)
    return max(said[0] for said in joining if said and said[1]["state"] == WorkerPhase.JOINING.value)
