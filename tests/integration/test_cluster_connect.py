"""A Spark Connect server, as ``cospark spark-connect`` starts it, with a standalone cluster behind it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path

import psutil
import pytest
from begun import begins_at_once
from runner_bench import Events, order_of
from standalone import StandaloneCluster
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.connect.client import require_client
from airflow_provider.spark.connect.server import TOKEN_ENV, ConnectServer, ConnectSettings
from airflow_provider.spark.runners.connect import ConnectRunner

pytestmark = pytest.mark.thorough

JOB = """
    import os

    from airflow_provider.spark.job import spark_job
    from cospark_near_help import double


    def ran(value):
        with open(f"/proc/{os.getppid()}/stat") as daemon:
            return f"{double(value)} {daemon.read().split()[3]}"


    @spark_job
    def ran_where(spark, task):
        "The result of a function of the job, and the process whose Python called it."
        from pyspark.sql.functions import udf

        (row,) = spark.range(4, 5).select(udf(ran)("id")).collect()
        return row[0]
"""


@pytest.fixture
def cluster() -> Iterator[StandaloneCluster]:
    require_client()
    with StandaloneCluster() as started:
        started.add_worker(cores=2)
        yield started


@pytest.fixture
def server(cluster: StandaloneCluster) -> Iterator[ConnectSettings]:
    """It has one core of the cluster, so it has one executor."""
    options = cluster.options(spark_cores_max="1", spark_python_authenticate_socketTimeout="120s")
    command = [sys.executable, "-m", "airflow_provider.cli.main", "spark-connect", "--master", *options[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            found = re.match(r"Spark Connect listens on (\S+)\. ", started.stdout.readline())
            assert found is not None
            told = "".join(takewhile(lambda line: line != "For Airflow:\n", started.stdout))
            token = re.search(rf"export {TOKEN_ENV}=(\S+)", told)
            assert token is not None
            yield ConnectSettings(server=ConnectServer.parse(found[1]), token=token[1])
        finally:
            started.send_signal(signal.SIGTERM)
            assert started.wait(DEADLINE_S) == 0


async def test_the_work_of_a_connect_server_runs_on_the_executors_of_its_cluster(
    cluster: StandaloneCluster,
    server: ConnectSettings,
    events: Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the modules of the job, also after the executor was killed."""
    (tmp_path / "cospark_near_jobs.py").write_text(textwrap.dedent(JOB))
    (tmp_path / "cospark_near_help.py").write_text("def double(value):\n    return 2 * value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = begins_at_once(
        ConnectRunner(
            events, allowed=["cospark_near_jobs"], settings=server, worker="w1", scope="cluster/group", tell_every_s=1.0
        )
    )
    cluster.wait(lambda state: [app["cores"] for app in state["activeapps"]] == [1], "it has its executor")
    for index in range(2):
        executor = cluster.executors()[0]
        task = order_of("cospark_near_jobs", "ran_where", index)
        await runner.start(task)
        assert await events.result(task.task) == f"8 {executor.pid}"
        executor.kill()
        await eventually(partial(_is_replaced, cluster, executor), "another executor replaces it")
    assert await runner.close() == frozenset()


def _is_replaced(cluster: StandaloneCluster, executor: psutil.Process) -> bool:
    there = cluster.executors()
    return bool(there) and executor not in there
