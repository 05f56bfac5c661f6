"""A worker joins a balanced group of two: in a declarative group and in a classic one, on the same real broker.

Both have the same 24 idle tasks, session and heartbeat interval; each worker is a process of its own, and those of the
declarative group coordinate it. *The join* is when the others see in the group's topics that the worker wants in;
starts and stops are those of the group's events, by the wall clock. A moved task *stands still* from its stop to its
start elsewhere; the group is at *balance* when the last moved task has started.
"""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import WorkerId
from airflow_provider.records import TaskKind, WorkerPhase
from benchmarks.rebalance import Joined, moves_of

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet import Fleet

_TASKS: Final = 24
_REPEATS: Final = 2
_HEARTBEAT_MS: Final = 3_000
_QUIET_S: Final = 3 * _HEARTBEAT_MS / 1000 + 1
_OPTIONS: Final = (
    *("--session-timeout-ms", "15000", "--heartbeat-interval-ms", str(_HEARTBEAT_MS), "--lease-margin-ms", "2000"),
    *("--max-delay-ms", "0", "--runner", "noop", "--slots", "100"),
)
_NEWCOMER: Final = WorkerId("w3")


def run(folder: Path) -> dict[str, Any]:
    """Measure both protocols and print them side by side.

    :param folder: for the workers' logs
    """
    with LocalBroker() as broker:
        sides = {name: asyncio.run(_joins(broker.bootstrap_servers, name, folder)) for name in ("classic", "connect")}
    figures = {
        "a moved task stands still": {
            name: [ms for join in joins for ms in join.stood] for name, joins in sides.items()
        },
        "from the join to the balance": {name: [join.balanced for join in joins] for name, joins in sides.items()},
        "of it, until the first task stops": {name: [join.heard for join in joins] for name, joins in sides.items()},
    }
    print(f"medians (and worst) of {_REPEATS} joins, {_TASKS} tasks, heartbeat {_HEARTBEAT_MS} ms")
    for what, figure in figures.items():
        print(f"{what:36} " + ", ".join(f"{name} {_in_words(ms)}" for name, ms in figure.items()))
    return {
        "medians_ms": {
            what: {name: statistics.median(ms) for name, ms in figure.items()} for what, figure in figures.items()
        },
        **{name: [asdict(join) for join in joins] for name, joins in sides.items()},
    }


def _in_words(ms: Sequence[int]) -> str:
    return f"{statistics.median(ms):.0f} ms ({max(ms)} ms)"


async def _joins(bootstrap_servers: str, protocol: str, folder: Path) -> list[Joined]:
    place = folder / protocol
    place.mkdir(exist_ok=True)
    joins = []
    async with Fleet(bootstrap_servers, protocol, place, *_OPTIONS, "--group-protocol", protocol) as fleet:
        await fleet.submit("job", tasks=_TASKS, kind=TaskKind.STREAMING)
        for name in ("w1", "w2"):
            fleet.start(name)
        await fleet.balanced("w1", "w2")
        for _ in range(_REPEATS):
            await asyncio.sleep(_QUIET_S + random.random() * _HEARTBEAT_MS / 1000)
            before = fleet.topics.status.workers.get(_NEWCOMER)
            process = None if before is None else before.process

            def wants_in(_jobs: JobsSnapshot, status: StatusSnapshot, former: object = process) -> bool:
                worker = status.workers.get(_NEWCOMER)
                return worker is not None and worker.process != former and worker.state is WorkerPhase.JOINING

            fleet.start(_NEWCOMER)
            await fleet.wait_for(wants_in, "a worker that wants in")
            joined_ms = wall_ms()
            await fleet.balanced("w1", "w2", _NEWCOMER)
            joins.append(Joined.of(joined_ms, await moves_of(fleet)))
            fleet.send(_NEWCOMER, signal.SIGTERM)
            await fleet.ended(_NEWCOMER)
            await fleet.balanced("w1", "w2")
    return joins
