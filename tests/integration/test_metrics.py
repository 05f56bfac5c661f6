"""The metrics that a StatsD server gets from worker processes on a real broker, in both group protocols."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet import Fleet, MakeFleet
from statsd_server import StatsdServer, statsd_server
from waiting import eventually

from airflow_provider.state.metrics.declared import DECLARED, Kind
from airflow_provider.state.records import TaskKind

PROTOCOLS = ["classic", "connect"]
KINDS = {Kind.GAUGE: "g", Kind.COUNTER: "c", Kind.TIMING: "ms"}


@pytest.fixture
async def statsd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[StatsdServer]:
    """The StatsD server in the Airflow config of the workers."""
    async with statsd_server() as server:
        for name, value in {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(server.port),
            "AIRFLOW__COOPERATIVE_SPARK__METRICS_INTERVAL": "0.5",
        }.items():
            monkeypatch.setenv(name, value)
        yield server


class Heard:
    """The lines about one group, by the metrics' names in the docs."""

    def __init__(self, server: StatsdServer, group: Fleet) -> None:
        self.server = server
        self._group = group.group_id

    def name(self, metric: str, *tags: str) -> str:
        return ".".join(("airflow", metric, self._group, *tags))

    def total(self, metric: str, *tags: str) -> float:
        return self.server.total(self.name(metric, *tags))

    def times(self, metric: str, *tags: str) -> list[float]:
        return [line.value for line in self.server.named(self.name(metric, *tags))]

    async def becomes(self, value: float, metric: str, *tags: str) -> None:
        """Wait until a gauge is sent with this value."""
        since, name = len(self.server.lines), self.name(metric, *tags)
        await eventually(
            lambda: self.server.last(name, since) == value, lambda: f"{name} is {value}, not {self.server.last(name)}"
        )


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_statsd_shows_what_happens_in_a_group(fleet: MakeFleet, statsd: StatsdServer, protocol: str) -> None:
    options = ("--runner", "noop", "--slots", "6", "--max-delay-ms", "0", "--group-protocol", protocol)
    async with fleet(*options) as group:
        heard = Heard(statsd, group)
        await group.submit("streams", tasks=4, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        await heard.becomes(1, "cospark.group.members")
        await heard.becomes(1, "cospark.group.converged")
        await heard.becomes(4, "cospark.job.tasks", "streams", "running")
        await heard.becomes(6, "cospark.group.slots")
        await heard.becomes(4, "cospark.group.busy_slots")

        group.start("w2")
        await group.balanced("w1", "w2")
        await heard.becomes(2, "cospark.group.members")
        await heard.becomes(group_epoch(group), "cospark.group.epoch")
        await heard.becomes(0, "cospark.group.unconverged_seconds")
        moved = heard.name("cospark.tasks_moved", "streams", "balance")
        await eventually(lambda: statsd.total(moved) == 2, "two moved tasks are counted")
        await eventually(
            lambda: len(heard.times("cospark.task_stood_still", "streams")) == 2,
            "the time that both stood still is sent",
        )
        await eventually(lambda: len(heard.times("cospark.rebalance_time")) >= 2, "two rebalances are timed")

        await group.submit("batch", tasks=3, seconds=0.01)
        await heard.becomes(3, "cospark.job.tasks", "batch", "finished")
        await heard.becomes(0, "cospark.job.pending_age_seconds", "batch")
        await eventually(lambda: heard.total("cospark.tasks_finished", "batch") == 4, "the planner and three tasks")
        await eventually(lambda: len(heard.times("cospark.task_time", "batch")) == 3, "each task's time")
        await eventually(lambda: len(heard.times("cospark.planner_time", "batch")) == 1, "the planner's time")
        assert heard.total("cospark.tasks_started", "streams") == 1 + 4 + 2  # the planner, the tasks, the moved tasks
        assert heard.total("cospark.tasks_stopped", "streams") == 2
        assert heard.total("cospark.rebalances") >= 2

        speakers = await who_tells_gauges(heard)
        assert len(speakers) == 1, "one process sends the gauges of the group"
        leader = str(group.topics.status.group.leader) if group.topics.status.group else ""
        (other,) = {"w1", "w2"} - {leader}
        group.send(leader, signal.SIGTERM)
        assert await group.ended(leader) == [0]
        await group.balanced(other)
        await heard.becomes(1, "cospark.group.members")
        assert (await who_tells_gauges(heard)).isdisjoint(speakers), "now another process sends them"
        assert not heard.total("cospark.leases_ended", "lease_over")

        declared = {f"airflow.{metric.name}": KINDS[metric.kind] for metric in DECLARED}
        ours = [
            line for line in statsd.lines if line.name.startswith("airflow.cospark.")
        ]  # Airflow sends metrics of its own, too
        for line in ours:
            name, *_ = re.split(rf"\.(?:{re.escape(group.group_id)}|\d+)(?:\.|$)", line.name)  # a group or a shard
            assert declared.get(name) == line.kind, f"{line} is not declared"


def group_epoch(group: Fleet) -> int:
    """The group's epoch. The fleet's own property reads classic records only."""
    assert group.topics.status.group is not None
    return group.topics.status.group.epoch


async def who_tells_gauges(heard: Heard) -> set[int]:
    since, name = len(heard.server.lines), heard.name("cospark.group.members")
    await eventually(lambda: len(heard.server.named(name, since)) >= 3, "three looks at the group")
    return {line.port for line in heard.server.lines[since:] if ".group." in line.name}
