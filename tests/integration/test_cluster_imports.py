"""Tasks on a cluster: its executors are other processes with an import path of their own."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from begun import begins_at_once
from runner_bench import Events
from standalone import StandaloneCluster

from airflow_provider.spark.local.application.spark_application import APPLICATION
from airflow_provider.spark.runner import TaskFailed, TaskFinished, TaskOrder
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, TaskId

JOBS = """
    from airflow_provider.spark.job import TaskContext, spark_job
    from cospark_cluster_help.numbers import double


    def where_from(value):
        import cospark_cluster_help, airflow_provider
        return [double(value), __file__, cospark_cluster_help.__file__, airflow_provider.__file__]


    @spark_job
    def own_functions(spark, task):
        from pyspark.sql.functions import udf

        (row,) = spark.range(3, 4).select(udf(double, "long")("id")).collect()
        return {"udf": row[0], "rdd": spark.sparkContext.parallelize([4]).map(where_from).first()}


    def far(value):
        import cospark_nowhere.inner


    @spark_job
    def missing(spark, task):
        from pyspark.sql.functions import udf

        spark.range(1).select(udf(far, "long")("id")).collect()
"""


@pytest.fixture(scope="module")
def application(cluster: StandaloneCluster) -> Iterator[None]:
    APPLICATION.running_for("the test module", cluster.settings())
    yield
    APPLICATION.release("the test module")


@pytest.fixture
async def on_cluster(
    application: None, cluster: StandaloneCluster, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LocalRunner]:
    """A runner for jobs in a folder that only this process has on its import path."""
    (tmp_path / "cospark_cluster_jobs.py").write_text(textwrap.dedent(JOBS))
    helpers = tmp_path / "cospark_cluster_help"
    helpers.mkdir()
    (helpers / "__init__.py").touch()
    (helpers / "numbers.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = begins_at_once(LocalRunner(events, allowed=["cospark_cluster_jobs"], settings=cluster.settings()))
    yield runner
    assert await runner.close() == frozenset()


def order(function: str) -> TaskOrder:
    return TaskOrder(
        task=TaskId(function.replace("_", "-"), 0), entry_point=f"cospark_cluster_jobs:{function}", epoch=Epoch(1)
    )


async def test_executors_import_the_modules_of_the_job_and_what_they_lack_is_named(
    on_cluster: LocalRunner, events: Events, cluster: StandaloneCluster
) -> None:
    task = order("own_functions")
    await on_cluster.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFinished), last
    assert last.result["udf"] == 6
    doubled, *files = last.result["rdd"]
    assert doubled == 8
    assert [name for name in files if ".zip/" not in name] == [], "not from a folder that both can see"

    task = order("missing")
    await on_cluster.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    told = (
        f"ExecutorImportError: the executors of {cluster.url} have no module 'cospark_nowhere'. Install cospark_nowhere"
    )
    assert last.error.startswith(told)
    assert "\ncaused by ModuleNotFoundError: No module named 'cospark_nowhere'\nby way of PythonException" in last.error
    assert "in far" in last.traceback
