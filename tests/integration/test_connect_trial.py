"""Spark Connect servers that were started here run any code that they are sent: who gets in, and what others see."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import psutil
from begun import begins_at_once
from runner_bench import Events, order_of
from shared_servers import MEMORY, SECRET, ServerForTrials

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.runner import SparkAbsent, TaskFinished
from airflow_provider.spark.runners.connect import ConnectRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@spark_job
def count(spark: SparkSession, task: TaskContext) -> int:
    return spark.range(3).count()


async def test_a_server_for_trials_lets_in_who_has_its_token(for_trials: ServerForTrials, events: Events) -> None:
    where = ConnectServer.parse(for_trials.url)
    run = partial(ConnectRunner, events, allowed=[__name__], worker="w1", scope="cluster/group", tell_every_s=1.0)
    for index, (sent, answer) in enumerate((("", SparkAbsent), (for_trials.token, TaskFinished))):
        runner = begins_at_once(run(settings=ConnectSettings(server=where, token=sent)))
        task = order_of(__name__, "count", index)
        await runner.start(task)
        assert isinstance(await events.last(task.task), answer)
        await runner.close()


def test_no_setting_of_its_spark_moves_a_server_off_this_machine(server: LocalConnectServer) -> None:
    assert server.pid is not None
    port = int(server.url.rpartition(":")[2])
    heard = psutil.Process(server.pid).net_connections("tcp")
    bound = {str(one.laddr.ip) for one in heard if one.status == psutil.CONN_LISTEN and one.laddr.port == port}
    assert {address.removeprefix("::ffff:") for address in bound} == {"127.0.0.1"}


def test_the_settings_of_its_spark_are_not_among_its_arguments(server: LocalConnectServer) -> None:
    """Which anybody on a machine can read."""
    assert server.pid is not None
    arguments = psutil.Process(server.pid).cmdline()
    assert SECRET not in " ".join(arguments)
    assert f"-Xmx{MEMORY}" in arguments, "the launcher has read them"
