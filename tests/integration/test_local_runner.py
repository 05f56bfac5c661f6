"""The local runner with a real Spark: what a worker and the author of a bounded job can rely on."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from begun import begins_at_once
from runner_bench import BENCH, SEEN, SETTINGS, SIGNALS, Events, counting, holding, let_go, order_of
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import FencedError, TaskContext, spark_job
from airflow_provider.spark.runner import (
    RunnerClosedError,
    StillRunningError,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import PLANNER_INDEX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__)


# --- bounded tasks


async def test_a_bounded_task_starts_and_finishes_with_its_result(runner: LocalRunner, events: Events) -> None:
    task = counting(1000, 2)
    await runner.start(task)
    last = await events.last(task.task)
    assert events.heard == [TaskStarted(order=task), last]
    assert last == TaskFinished(order=task, result={"rows": 1000, "index": 2, "epoch": 7})
    assert runner.running == frozenset()


@spark_job
def meet(spark: SparkSession, task: TaskContext) -> object:
    """Return only if another task runs its Spark job at the same time."""
    from pyspark.sql.functions import udf

    own, other = task.config["own"], task.config["other"]

    @udf("boolean")
    def wait_for_other(_id):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        Path(own).touch()
        deadline = time.monotonic() + DEADLINE_S
        while not Path(other).exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    return spark.range(1).select(wait_for_other("id")).collect()[0][0]


async def test_two_tasks_run_at_the_same_time(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    first = order("meet", 0, own=names[0], other=names[1])
    second = order("meet", 1, own=names[1], other=names[0])
    await runner.start(first)
    await runner.start(second)
    assert await events.result(first.task) is True
    assert await events.result(second.task) is True


async def test_one_task_is_stopped_alone_while_the_other_goes_on(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    first, second = holding(tmp_path, 0), holding(tmp_path, 1)
    for task in (first, second):
        await runner.start(task)
        await eventually(Path(task.config["started"]).exists)

    assert await runner.stop([first.task], "moved to another worker") == frozenset()
    assert events.heard[-1] == TaskStopped(order=first, reason="moved to another worker")
    assert runner.running == {second.task}

    let_go(second)
    assert await events.last(second.task) == TaskFinished(order=second, result=0)


@spark_job
def work_in_threads(spark: SparkSession, task: TaskContext) -> object:
    """Runs endless Spark jobs in threads of its own, and waits for them if ``waits``."""
    from concurrent.futures import ThreadPoolExecutor

    from pyspark.sql import SparkSession

    def count() -> Any:
        return SparkSession.builder.getOrCreate().range(10**12).selectExpr("sum(id % 7)").collect()

    pool = ThreadPoolExecutor(2)
    counts = [pool.submit(count) for _ in range(2)]
    pool.shutdown(wait=False)
    while len(spark.sparkContext.statusTracker().getActiveJobsIds()) < 2:
        time.sleep(0.01)
    SEEN["counts"] = counts
    SIGNALS["started"].set()
    return [count.result()[0][0] for count in counts] if task.config["waits"] else None


async def test_spark_jobs_by_threads_of_the_task_are_cancelled_too(runner: LocalRunner, events: Events) -> None:
    SIGNALS["started"] = threading.Event()
    task = order("work_in_threads", waits=True)
    await runner.start(task)
    await eventually(SIGNALS["started"].is_set)
    assert await runner.stop([task.task], "revoked") == frozenset()
    assert await events.last(task.task) == TaskStopped(order=task, reason="revoked")


async def test_spark_jobs_by_threads_end_with_the_task_that_does_not_wait_for_them(
    runner: LocalRunner, events: Events
) -> None:
    SIGNALS["started"] = threading.Event()
    task = order("work_in_threads", waits=False)
    await runner.start(task)
    assert await events.last(task.task) == TaskFinished(order=task, result=None)
    await eventually(lambda: all(count.done() for count in SEEN["counts"]))


async def test_a_stopped_task_can_be_started_again(runner: LocalRunner, events: Events, tmp_path: Path) -> None:
    task = holding(tmp_path, 0)
    await runner.start(task)
    await eventually(Path(task.config["started"]).exists)
    with pytest.raises(StillRunningError, match="hold-a-core:0 is still running"):
        await runner.start(task)
    await runner.stop([task.task], "revoked")
    let_go(task)
    await runner.start(task)
    await eventually(lambda: TaskFinished(order=task, result=0) in events.heard)


@spark_job
def fail_with_cause(spark: SparkSession, task: TaskContext) -> None:
    try:
        spark.sql("SELECT * FROM no_such_table").count()
    except Exception as error:
        raise RuntimeError("the ingest of orders failed") from error


async def test_a_failing_task_tells_its_error_and_the_cause(runner: LocalRunner, events: Events) -> None:
    task = order("fail_with_cause")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert last.retryable
    lines = last.error.splitlines()
    assert lines[0] == "RuntimeError: the ingest of orders failed"
    assert "caused by AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]" in last.error
    assert "in fail_with_cause" in last.traceback
    assert "run_attempt.py" not in last.traceback


@spark_job
def fail_in_a_udf(spark: SparkSession, task: TaskContext) -> object:
    from pyspark.sql.functions import udf

    @udf("long")
    def divide(value):  # type: ignore[no-untyped-def]  # hints would say to Spark which kind of UDF it is
        return 1 // value

    return spark.range(1).select(divide("id")).collect()[0][0]


async def test_an_error_inside_a_python_worker_is_named(runner: LocalRunner, events: Events) -> None:
    task = order("fail_in_a_udf")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert "ZeroDivisionError" in last.error


@spark_job
def return_a_data_frame(spark: SparkSession, task: TaskContext) -> object:
    return {"rows": spark.range(3)}


async def test_a_result_that_json_cannot_carry_fails_the_task(runner: LocalRunner, events: Events) -> None:
    task = order("return_a_data_frame")
    await runner.start(task)
    last = await events.last(task.task)
    assert isinstance(last, TaskFailed)
    assert not last.retryable
    assert "$.rows is a pyspark.sql" in last.error
    assert "return None, or a small dict" in last.error


# --- planners


@spark_job(plan=lambda job: [{"partition": row.id} for row in job.spark.range(job.max_tasks).collect()])
def planned_with_spark(spark: SparkSession, task: TaskContext) -> object:
    return None


async def test_a_plan_may_look_at_data(runner: LocalRunner, events: Events) -> None:
    task = order("planned_with_spark", PLANNER_INDEX)
    await runner.start(task)
    assert await events.result(task.task) == [{"partition": 0}, {"partition": 1}, {"partition": 2}]


# --- stopping and fencing


@spark_job
def work_in_python(spark: SparkSession, task: TaskContext) -> object:
    SIGNALS["started"].set()
    while not task.wait(0.01):
        pass
    SEEN["stopping"] = task.stopping
    try:
        task.fence()
    except FencedError as error:
        SEEN["fence"] = str(error)
    return "half of the work"


async def test_python_work_sees_that_it_is_stopped_and_its_fence_raises(runner: LocalRunner, events: Events) -> None:
    SIGNALS["started"] = threading.Event()
    task = order("work_in_python")
    await runner.start(task)
    await eventually(SIGNALS["started"].is_set)
    assert await runner.stop([task.task], "revoked by the leader") == frozenset()
    assert await events.last(task.task) == TaskStopped(order=task, reason="revoked by the leader")
    assert SEEN == {"stopping": True, "fence": "the task was told to stop: revoked by the leader"}


@spark_job
def do_not_listen(spark: SparkSession, task: TaskContext) -> object:
    SIGNALS["started"].set()
    assert SIGNALS["end"].wait(DEADLINE_S)
    spark.range(10).count()
    return "never used"


async def test_a_task_that_does_not_listen_is_reported_as_still_running(
    runner: LocalRunner, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    SIGNALS.update(started=threading.Event(), end=threading.Event())
    task = order("do_not_listen")
    await runner.start(task)
    await eventually(SIGNALS["started"].is_set)
    assert await runner.stop([task.task], "revoked", timeout_s=0.1) == {task.task}
    assert "Still running 0.1 s after they were told to stop (revoked): do-not-listen:0" in caplog.text
    assert runner.running == {task.task}
    SIGNALS["end"].set()
    assert await events.last(task.task) == TaskStopped(order=task, reason="revoked")


async def test_closing_stops_everything(events: Events, tmp_path: Path) -> None:
    runner = begins_at_once(LocalRunner(events, allowed=[BENCH], settings=SETTINGS))
    tasks = [holding(tmp_path, 0), counting(10**12)]
    for task in tasks:
        await runner.start(task)
        await events.wait_for(task.task, TaskStarted)
    assert await runner.close() == frozenset()
    assert runner.running == frozenset()
    assert {event.order.task for event in events.heard if isinstance(event, TaskStopped)} == {t.task for t in tasks}
    with pytest.raises(RunnerClosedError):
        await runner.start(tasks[0])
