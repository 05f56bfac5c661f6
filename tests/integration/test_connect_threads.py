"""The threads of tasks whose Spark is a server: whose session they have, and that they end with their task."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from begun import begins_at_once
from runner_bench import SEEN, SIGNALS, Events, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.job import TaskContext, spark_job
from airflow_provider.spark.local.isolation.thread_owners import ForeignThreadError
from airflow_provider.spark.runner import TaskOrder, TaskStopped
from airflow_provider.spark.runners.connect import ConnectRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
async def runner(server: LocalConnectServer, events: Events) -> AsyncIterator[ConnectRunner]:
    settings = ConnectSettings(server=ConnectServer.parse(server.url))
    runner = begins_at_once(ConnectRunner(events, allowed=[__name__], settings=settings, worker="w1"))
    yield runner
    for waiting in SIGNALS.values():
        waiting.set()
    assert await runner.close() == frozenset()
    SIGNALS.clear()
    SEEN.clear()


def order(function: str, index: int = 0, **config: Any) -> TaskOrder:
    return order_of(__name__, function, index, **config)


@spark_job
def use_a_view_in_threads(spark: SparkSession, task: TaskContext) -> Any:
    from pyspark.sql import SparkSession

    rows = task.config["rows"]
    spark.addTag(f"tag-{rows}")

    def make() -> None:
        session = SparkSession.builder.config("spark.sql.shuffle.partitions", str(rows)).getOrCreate()
        session.range(rows).createOrReplaceTempView("numbers")

    def look() -> list[Any]:
        session = SparkSession.active()
        return [
            session is spark,
            SparkSession.getActiveSession() is spark,
            session.table("numbers").count(),
            session.conf.get("spark.sql.shuffle.partitions"),
            sorted(session.getTags()),
        ]

    def ask_late() -> object:
        assert SIGNALS["ended"].wait(DEADLINE_S)
        return SparkSession.active()

    pool = SEEN["shared"]
    pool.submit(make).result()
    SIGNALS[f"made-{rows}"].set()
    assert SIGNALS[f"go-{rows}"].wait(DEADLINE_S)
    SEEN.setdefault("late", []).append(SEEN["own"].submit(ask_late))
    return pool.submit(look).result()


@spark_job
def work_on_in_a_thread(_spark: SparkSession, task: TaskContext) -> None:
    from pyspark.sql import SparkSession

    def work() -> None:
        session = SparkSession.active()
        session.range(1).count()
        SIGNALS["begins"].set()
        session.range(10**15).selectExpr("sum(id * id % 7)").collect()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


async def test_calls_in_a_shared_pool_have_the_session_and_tags_of_their_task_and_others_none(
    runner: ConnectRunner, events: Events
) -> None:
    from pyspark.sql import SparkSession

    sizes = (3, 5)
    SIGNALS.update({f"{name}-{rows}": threading.Event() for name in ("made", "go") for rows in sizes})
    SIGNALS["ended"] = threading.Event()
    SEEN.update(shared=ThreadPoolExecutor(1), own=ThreadPoolExecutor(2))
    tasks = {rows: order("use_a_view_in_threads", rows, rows=rows) for rows in sizes}
    for rows, task in tasks.items():
        await runner.start(task)
        await eventually(SIGNALS[f"made-{rows}"].is_set)
    for rows, task in tasks.items():
        SIGNALS[f"go-{rows}"].set()
        assert await events.result(task.task) == [True, True, rows, str(rows), [f"tag-{rows}"]]
    SIGNALS["ended"].set()
    with SEEN["own"], SEEN["shared"] as pool:
        for late in SEEN["late"]:
            with pytest.raises(ForeignThreadError, match=r"the task of thread '.*' has ended"):
                late.result()
        for ask in (SparkSession.builder.getOrCreate, SparkSession.active):
            for asked in (ask, pool.submit(ask).result):
                with pytest.raises(ForeignThreadError, match="belongs to no task"):
                    asked()
        assert SparkSession.getActiveSession() is None
        assert pool.submit(SparkSession.getActiveSession).result() is None


async def test_what_a_thread_of_a_task_does_there_is_stopped_with_it(runner: ConnectRunner, events: Events) -> None:
    SIGNALS["begins"] = threading.Event()
    task = order("work_on_in_a_thread")
    await runner.start(task)
    await eventually(SIGNALS["begins"].is_set)
    assert await runner.stop([task.task], "revoked", timeout_s=DEADLINE_S) == frozenset()
    assert isinstance(await events.last(task.task), TaskStopped)
