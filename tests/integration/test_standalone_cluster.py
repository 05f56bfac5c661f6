"""Tasks on a standalone cluster whose master, workers and application come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from runner_bench import BENCH, DEADLINE_S, Events, counting, holding, let_go, until
from standalone_cluster import StandaloneCluster

from airflow_provider.spark.application import LocalSparkSettings
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.runner import SparkAbsent, SparkLost, TaskFinished

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
async def on_cluster(cluster: StandaloneCluster, events: Events) -> AsyncIterator[LocalRunner]:
    """A runner whose Spark is the cluster's."""
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    runner = LocalRunner(events, allowed=[BENCH], settings=LocalSparkSettings(master=cluster.url, conf=conf))
    yield runner
    await runner.close(timeout_s=DEADLINE_S)


async def test_a_master_that_has_forgotten_its_applications_is_a_lost_spark(
    cluster: StandaloneCluster, on_cluster: LocalRunner, events: Events, tmp_path: Path
) -> None:
    """Without executors it says so; a master that is away costs nothing; one without memory costs the application."""
    cluster.start_master()
    task = holding(tmp_path, 0)
    await on_cluster.start(task)
    await until(lambda: on_cluster.condition == "waiting for executors", "no worker is there")

    cluster.start_worker()
    await until(Path(task.config["started"]).exists, "a worker runs it")
    await until(lambda: on_cluster.condition == "", "nothing is missing")

    cluster.kill("master")
    cluster.start_master()
    last = await events.last(task.task)
    assert isinstance(last, SparkLost)
    assert "this worker's Spark has ended: its context was stopped" in last.error

    let_go(task)
    again = counting(5)
    await on_cluster.start(again)
    assert isinstance(await events.last(again.task), TaskFinished)


async def test_without_a_master_no_task_has_failed(
    cluster: StandaloneCluster, on_cluster: LocalRunner, events: Events
) -> None:
    task = counting(5)
    await on_cluster.start(task)
    last = await events.last(task.task)
    assert isinstance(last, SparkAbsent)
    assert f"no Spark master can be reached at {cluster.url}" in last.error
