"""A standalone cluster whose master goes away and recovers its applications."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from begun import begins_at_once
from runner_bench import BENCH, Events, counting, holding, let_go
from standalone import StandaloneCluster
from waiting import eventually

from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import TaskFinished, TaskProgressed, TaskStarted
from airflow_provider.spark.runners.local import LocalRunner

pytestmark = pytest.mark.thorough


@pytest.fixture
async def on_cluster(events: Events) -> AsyncIterator[tuple[StandaloneCluster, LocalRunner]]:
    with StandaloneCluster(recovery="FILESYSTEM") as cluster:
        cluster.add_worker()
        runner = begins_at_once(LocalRunner(events, allowed=[BENCH], settings=cluster.settings()))
        yield cluster, runner
        await runner.close()


async def test_a_worker_runs_on_without_its_master_and_reports_a_lack_of_executors(
    on_cluster: tuple[StandaloneCluster, LocalRunner], events: Events, tmp_path: Path
) -> None:
    cluster, runner = on_cluster
    task = holding(tmp_path, 0)
    await runner.start(task)
    await eventually(Path(task.config["started"]).exists, "it runs")
    await eventually(lambda: len(cluster.executors()) == 2, "the cluster has room for another executor")

    cluster.kill_master()
    beside = counting(5)
    await runner.start(beside)
    assert isinstance(await events.last(beside.task), TaskFinished), "the executors are still there"
    assert runner.condition == ""

    for executor in cluster.executors():
        executor.kill()
    await eventually(lambda: runner.condition == Sight.MASTERLESS.value, "there is no master to give it new ones")
    cluster.start_master()
    await eventually(lambda: runner.condition == "", "the master has recovered it and given it new executors")
    let_go(task)
    assert isinstance(await events.last(task.task), TaskFinished)
    told = [type(event) for event in events.of(task.task) if not isinstance(event, TaskProgressed)]
    assert told == [TaskStarted, TaskFinished], "as the same attempt"
