"""Worker processes change from each setting of the embedded protocol to each other one, on a real broker."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import partial
from itertools import pairwise, permutations

import pytest
from fleet import Fleet, MakeFleet, overlaps

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import ConnectProtocol

WORKERS = ("w1", "w2")


def all_changes() -> Sequence[ConnectProtocol]:
    """A closed walk over the settings that makes each change from one to another once."""
    ways = {setting: [other for other in ConnectProtocol if other is not setting] for setting in ConnectProtocol}
    open_ways, walk = [ConnectProtocol.EXTENSIBLE], []
    while open_ways:
        if left := ways[open_ways[-1]]:
            open_ways.append(left.pop())
        else:
            walk.append(open_ways.pop())
    assert sorted(pairwise(walk)) == sorted(permutations(ConnectProtocol, 2))
    return walk[::-1]


UP_AND_DOWN = (ConnectProtocol.EAGER, ConnectProtocol.EXTENSIBLE, ConnectProtocol.EAGER)
"""The changes between the most different settings; the simulation makes all changes."""


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Workers with the noop runner and enough slots."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--max-delay-ms", "0")


@pytest.mark.parametrize(
    "walk",
    [
        pytest.param(UP_AND_DOWN, id="up and down"),
        pytest.param(all_changes(), id="all changes", marks=pytest.mark.thorough),
    ],
)
async def test_nothing_is_lost_and_nothing_runs_twice(fleet: MakeFleet, walk: Sequence[ConnectProtocol]) -> None:
    async with fleet() as group:
        await group.submit("streams", tasks=4, kind=TaskKind.STREAMING)
        for worker in WORKERS:
            group.start(worker, "--connect-protocol", walk[0])
        await group.balanced(*WORKERS)
        for setting in walk[1:]:
            for worker in WORKERS:
                await restart(group, worker, setting)
            assert group.record.protocol is setting.offered[0].recorded, group.story()
        assert not overlaps(await group.steps()), group.story()
        for worker in WORKERS:
            assert "a fault of this program" not in group.log_of(worker)


async def restart(group: Fleet, worker: str, setting: ConnectProtocol) -> None:
    group.send(worker, signal.SIGTERM)
    assert await group.ended(worker) == [0]
    (other,) = set(WORKERS) - {worker}
    await group.balanced(other)
    group.start(worker, "--connect-protocol", setting)
    await group.balanced(*WORKERS)
