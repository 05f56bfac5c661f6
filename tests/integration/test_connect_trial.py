"""Who gets into the Spark Connect server that is started for trials: it runs any code that it is sent."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

import psutil
import pytest
from begun import begins_at_once
from runner_bench import Events, order_of
from waiting import DEADLINE_S

from airflow_provider.servers.spark_connect import BINDING_ADDRESS, LocalConnectServer
from airflow_provider.spark.connect.server import TOKEN_ENV, ConnectServer, ConnectSettings
from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.runner import SparkAbsent, TaskFinished
from airflow_provider.spark.runners.connect import ConnectRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@spark_job
def count(spark: SparkSession, task: TaskContext) -> int:
    return spark.range(3).count()


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What the command prints for users of ``cospark``."""
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    command = [sys.executable, "-m", "airflow_provider.cli.main", "spark-connect"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        try:
            yield "".join(takewhile(lambda line: line != "For Airflow:\n", started.stdout))
        finally:
            started.send_signal(signal.SIGTERM)
            assert started.wait(DEADLINE_S) == 0


async def test_a_server_for_trials_lets_in_who_has_its_token(printed: str, events: Events) -> None:
    url, token = re.search(r"--spark-master (\S+)", printed), re.search(rf"export {TOKEN_ENV}=(\S+)", printed)
    assert url is not None
    assert token is not None
    run = partial(ConnectRunner, events, allowed=[__name__], worker="w1", scope="cluster/group", tell_every_s=1.0)
    for index, (sent, answer) in enumerate((("", SparkAbsent), (token[1], TaskFinished))):
        runner = begins_at_once(run(settings=ConnectSettings(server=ConnectServer.parse(url[1]), token=sent)))
        task = order_of(__name__, "count", index)
        await runner.start(task)
        assert isinstance(await events.last(task.task), answer)
        await runner.close()


def test_no_setting_of_its_spark_moves_a_server_off_this_machine() -> None:
    with LocalConnectServer(conf={BINDING_ADDRESS: "0.0.0.0"}, start_timeout_s=DEADLINE_S) as server:
        assert server.pid is not None
        port = int(server.url.rpartition(":")[2])
        heard = psutil.Process(server.pid).net_connections("tcp")
        bound = {str(one.laddr.ip) for one in heard if one.status == psutil.CONN_LISTEN and one.laddr.port == port}
    assert {address.removeprefix("::ffff:") for address in bound} == {"127.0.0.1"}
