"""Worker processes in a declarative group, on a real broker; they coordinate it themselves."""

from __future__ import annotations

import signal
from functools import partial

import pytest
from fleet import SHORT_SESSION, MakeFleet, overlaps

from airflow_provider.records import TaskKind


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    """Its workers run nothing, have room for everything, and give lost tasks to others immediately."""
    return partial(fleet, "--runner", "noop", "--slots", "20", "--max-delay-ms", "0", "--group-protocol", "connect")


@pytest.mark.timeout(400)
async def test_workers_come_leave_and_are_lost_and_nothing_runs_twice(fleet: MakeFleet) -> None:
    async with fleet(*SHORT_SESSION) as group:
        await group.submit("streams", tasks=8, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        group.start("w2")
        await group.balanced("w1", "w2")
        group.start("w3")
        await group.balanced("w1", "w2", "w3")
        group.kill("w2")
        await group.balanced("w1", "w3")
        group.start("w2")
        await group.balanced("w1", "w2", "w3")
        group.send("w1", signal.SIGTERM)
        assert await group.ended("w1") == [0]
        await group.balanced("w2", "w3")
        assert not overlaps(await group.steps())
        for worker in ("w1", "w2", "w3"):
            assert "a fault of this program" not in group.log_of(worker)
