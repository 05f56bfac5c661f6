"""Workers that share a standalone cluster: each is an application of its own there."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from fleet import Fleet
from standalone import StandaloneCluster

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import TaskId, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
TASKS = [TaskId("doubles", index) for index in range(2)]
JOBS = """
    from pathlib import Path

    from airflow_provider.spark.job import spark_job
    from cospark_far_help import double


    @spark_job(plan=lambda job: [{"held": f"{job.config['held']}-{number}"} for number in range(job.max_tasks)])
    def doubles(spark, task):
        "Runs until its file is deleted."
        from pyspark.sql.functions import sum, udf

        batches = 0
        while batches == 0 or Path(task.config["held"]).exists():
            (row,) = spark.range(0, 100, 1, 2).select(sum(udf(double, "long")("id"))).collect()
            assert row[0] == 9900, row
            batches += 1
        return batches
"""


@pytest.fixture
def group(broker: LocalBroker, group_id: str, tmp_path: Path) -> Fleet:
    """Its jobs are in modules that the executors do not have, and run as long as the file ``held-N`` exists."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "cospark_far_jobs.py").write_text(textwrap.dedent(JOBS))
    (modules / "cospark_far_help.py").write_text("def double(value):\n    return 2 * value\n")
    for index in range(len(TASKS)):
        held(tmp_path, index).touch()
    options = ("--allow", "cospark_far_jobs", "--slots", "1")
    return Fleet(broker.bootstrap_servers, group_id, tmp_path, *options, modules=modules)


def held(folder: Path, index: int) -> Path:
    return folder / f"held-{index}"


async def submit(group: Fleet, folder: Path) -> None:
    config = {"held": str(folder / "held")}
    await group.submit("doubles", tasks=len(TASKS), entry_point="cospark_far_jobs:doubles", config=config)


async def finished(group: Fleet, *tasks: TaskId) -> None:
    await group.wait_for(
        lambda _jobs, status: all(
            task in status.tasks and status.tasks[task].state is TaskState.FINISHED for task in tasks
        ),
        f"finished: {', '.join(map(str, tasks))}",
    )
    for task in tasks:
        last = group.topics.status.tasks[task]
        assert (last.attempt, last.failures, last.spark_deaths) == (1, 0, 0)


@pytest.mark.thorough
async def test_each_worker_has_its_share_of_cores_and_a_killed_executor_costs_no_attempt(
    group: Fleet, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    async with group:
        await submit(group, tmp_path)
        for worker in (W1, W2):
            group.start(worker, *cluster.options(spark_cores_max="1"))
        await group.balanced(W1, W2)
        cluster.wait(
            lambda state: [app["cores"] for app in state["activeapps"]] == [1, 1], "each worker has its executors"
        )

        killed = cluster.executors()
        for executor in killed:
            executor.kill()
        cluster.wait(
            lambda _state: len(now := cluster.executors()) == len(killed) and not {*now} & {*killed},
            "new executors replace them",
        )
        for index in range(len(TASKS)):
            held(tmp_path, index).unlink()
        await finished(group, *TASKS)


@pytest.mark.thorough
async def test_with_dynamic_allocation_an_idle_worker_gives_its_cores_back(
    group: Fleet, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    dynamic = cluster.options(
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_executorIdleTimeout="2s",
        spark_dynamicAllocation_shuffleTracking_timeout="2s",
        spark_dynamicAllocation_initialExecutors="2",
    )
    async with group:
        await submit(group, tmp_path)
        group.start(W1, *dynamic)
        await group.wait_for(lambda _jobs, status: any(task in status.tasks for task in TASKS), "a task runs")
        cluster.wait(lambda state: state["coresused"] == 2, "it has taken all cores")
        group.start(W2, *dynamic)
        await group.balanced(W1, W2)
        await group.wait_for(
            lambda _jobs, status: status.workers[W2].condition == Sight.WAITING.value,
            "the other one says what it needs",
        )
        first, second = sorted(TASKS, key=lambda task: group.topics.status.tasks[task].worker)
        held(tmp_path, first.index).unlink()
        await finished(group, first)
        await group.wait_for(lambda _jobs, status: status.workers[W2].condition == "", "it has the cores it needs")
        held(tmp_path, second.index).unlink()
        await finished(group, second)
