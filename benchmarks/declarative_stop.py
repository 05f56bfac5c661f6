"""A worker joins a balanced group of two, one of which needs 30 s to stop a task: what do the moves of the other lose?

As in :mod:`benchmarks.declarative`, for a declarative group and a classic one on the same real broker. The tasks that
the slow worker gives up and those of the quick one are measured separately. The same run measures the same join with
two quick workers. The ratio shows what the slow one costs tasks that it never had.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import WorkerId
from benchmarks.declarative import OPTIONS, QUIET_S, TASKS, wanted_in_ms
from benchmarks.joined import Fleet, Joined, moves_of

_STOP_S: Final = 30.0
_SLOW: Final = (sys.executable, "-m", "benchmarks.slow_to_stop", str(_STOP_S))
_REPEATS: Final = 2


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures.

    :param folder: for the workers' logs
    """
    figures: dict[str, Any] = {}
    with LocalBroker() as broker:
        for protocol in ("classic", "connect"):
            stood: dict[str, list[int]] = {"quick": [], "beside": [], "slow": []}
            for number in range(_REPEATS if protocol == "connect" else 1):
                place = folder / f"{protocol}-{number}"
                place.mkdir(exist_ok=True)
                quick, slow = (
                    asyncio.run(_join(broker.bootstrap_servers, f"{protocol}-{number}-{kind}", protocol, place, kind))
                    for kind in ("quick", "slow")
                )
                stood["quick"] += quick["w1"] + quick["w2"]
                stood["slow"] += slow["w1"]
                stood["beside"] += slow["w2"]
            medians = {name: statistics.median(ms) for name, ms in stood.items()}
            ratio = medians["beside"] / medians["quick"]
            figures[protocol] = {"stood_ms": stood, "medians_ms": medians, "ratio": ratio}
            print(
                f"{protocol}: tasks of a worker that takes {_STOP_S:g} s to stop stand still {medians['slow']:,.0f} ms,"
                f" those of the other one {medians['beside']:,.0f} ms (worst {max(stood['beside']):,}); in a group of"
                f" quick ones {medians['quick']:,.0f} ms (worst {max(stood['quick']):,}): {ratio:.2f} (goal 1)",
                flush=True,
            )
    return figures


async def _join(servers: str, group: str, protocol: str, place: Path, first: str) -> dict[str, list[int]]:
    """How long each task stood still, by the worker that gave it up."""
    async with Fleet(servers, group, place, *OPTIONS, "--group-protocol", protocol) as fleet:
        await fleet.submit("job", tasks=TASKS, kind=TaskKind.STREAMING)
        if first == "slow":
            fleet.start("w1", command=_SLOW)
        else:
            fleet.start("w1")
        fleet.start("w2")
        await fleet.balanced("w1", "w2")
        record = fleet.topics.status.group
        assert record is not None
        had = {worker: record.owned_by(WorkerId(worker)) for worker in ("w1", "w2")}
        await asyncio.sleep(QUIET_S + random.random())
        fleet.start("w3")
        await fleet.balanced("w1", "w2", "w3")
        joined_ms = await asyncio.to_thread(wanted_in_ms, fleet, "w3")
        steps = [step for step in await moves_of(fleet) if step.at_ms >= joined_ms]
        return {
            worker: list(Joined.of(joined_ms, [step for step in steps if step.task in tasks]).stood)
            for worker, tasks in had.items()
        }
