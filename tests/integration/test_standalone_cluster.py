"""Tasks on a standalone cluster whose master and workers come and go."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from begun import begins_at_once
from runner_bench import BENCH, NOTICED_S, Events, counting, holding, let_go
from standalone import StandaloneCluster
from waiting import eventually

from airflow_provider.spark.runner import SparkLost, TaskFinished, TaskProgressed, TaskStarted
from airflow_provider.spark.runners.local import LocalRunner


@pytest.fixture
async def on_cluster(events: Events) -> AsyncIterator[tuple[StandaloneCluster, LocalRunner]]:
    """A runner on a cluster that has no Spark worker yet."""
    with StandaloneCluster() as cluster:
        runner = begins_at_once(LocalRunner(events, allowed=[BENCH], settings=cluster.settings()))
        yield cluster, runner
        await runner.close()


@pytest.mark.thorough  # each run has a test that kills an application's executors
async def test_a_master_that_has_forgotten_its_applications_is_a_lost_spark(
    on_cluster: tuple[StandaloneCluster, LocalRunner], events: Events, tmp_path: Path
) -> None:
    """A lack of executors is reported; a dead Spark worker costs nothing; a master without its state loses all."""
    cluster, runner = on_cluster
    task = holding(tmp_path, 0)
    await runner.start(task)
    await eventually(lambda: runner.condition == "waiting for executors", "no worker is there")

    cluster.add_worker()
    await eventually(Path(task.config["started"]).exists, "the task runs")
    await eventually(lambda: runner.condition == "", "nothing is missing")

    cluster.kill_worker(cluster.workers[0])
    await eventually(lambda: runner.condition == "waiting for executors", "its only worker is gone")
    cluster.add_worker()
    await eventually(lambda: runner.condition == "", "another worker does its work")
    told = [type(event) for event in events.of(task.task) if not isinstance(event, TaskProgressed)]
    assert told == [TaskStarted], "the task goes on as the same attempt"

    cluster.kill_master()
    cluster.start_master()
    await eventually(
        lambda: not cluster.executors(),
        "its Spark worker learns that the application is unknown, and ends its executor",
    )
    ended = time.monotonic()
    last = await events.last(task.task)
    print(f"noticed after {time.monotonic() - ended:.1f} s")
    assert NOTICED_S <= 10, "what docs/operating.md promises"
    assert isinstance(last, SparkLost)
    assert "this worker's Spark has ended: its context was stopped" in last.error

    let_go(task)
    again = counting(5)
    await runner.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)
