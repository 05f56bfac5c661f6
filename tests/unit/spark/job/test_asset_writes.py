"""What tasks say they have written: from a job's code into the record of a task's end, and into the job's report."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import job, jobs_snapshot, status_snapshot
from begun import begins_at_once
from execution_script import A0, Script
from waiting import DEADLINE_S

from airflow_provider.spark.job import TaskContext
from airflow_provider.spark.job.asset_writes import MOST_ASSETS, AssetWrite, AssetWrites
from airflow_provider.spark.runner import LastEvent, RunnerEvent, TaskFailed, TaskFinished, TaskOrder
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.state.records import TaskState, TaskStatus, WrittenAsset, decode
from airflow_provider.state.reports.report import JobReport
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import WriteEnd
from airflow_provider.worker.tasks.events import EndRefused

WRITE = AssetWrite("orders", "s3://lake/orders", 7)
ORDERS = WrittenAsset(name="orders", uri="s3://lake/orders", rows=7)


def task_context() -> TaskContext:
    return TaskContext(job="job", index=0, config={}, epoch=1, checkpoint_location="")


class Seven:
    """A whole number that is no int, as numpy has them."""

    def __index__(self) -> int:
        return 7


def test_what_is_said_several_times_of_an_asset_adds_up() -> None:
    task = task_context()
    task.wrote("orders", 3, uri="s3://lake/orders")
    task.wrote("items", Seven())
    task.wrote("orders", 4, uri="s3://lake/orders")
    task.wrote("orders", 0)
    task.wrote("unknown", 5)
    task.wrote("unknown")
    assert task.writes.told == (
        AssetWrite("orders", "s3://lake/orders", 7),
        AssetWrite("items", "items", 7),
        AssetWrite("orders", "orders", 0),
        AssetWrite("unknown", "unknown", None),
    )


def test_threads_may_say_it_together() -> None:
    """A stream's batches are written in threads of Spark's."""
    writes = AssetWrites()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(2_000):
            pool.submit(writes.add, "orders", "orders", 1)
    assert writes.told == (AssetWrite("orders", "orders", 2_000),)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"asset": ""}, "name: must be a text of 1 to 1500 characters"),
        ({"asset": " \n"}, "name: must be a text"),
        ({"asset": "x" * 1_501}, "name: must be a text"),
        ({"asset": "\ud800"}, "name: has half a character"),
        ({"asset": None}, "name: must be a text"),
        ({"asset": "a", "uri": ""}, "uri: must be a text"),
        ({"asset": "a", "rows": -1}, "asset 'a': rows must be a whole number, 0 or more, and not -1"),
        ({"asset": "a", "rows": 1.0}, "and not 1.0"),
        ({"asset": "a", "rows": 2**53}, "rows must be a whole number"),
    ],
)
def test_what_no_record_can_have_is_refused_where_it_is_said(said: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        task_context().wrote(**said)


def test_a_task_tells_of_no_more_assets_than_its_record_has_room_for() -> None:
    task = task_context()
    for number in range(MOST_ASSETS):
        task.wrote(f"table_{number}", 1)
    task.wrote("table_0", 1)
    with pytest.raises(ValueError, match="asset 'one more': the task has named 100 others already"):
        task.wrote("one more")


ORDER = TaskOrder(task=TaskId("job", 0), entry_point="m:f", epoch=Epoch(1))


def ended(done: list[Any]) -> TaskStatus:
    (end,) = (command for command in done if isinstance(command, WriteEnd))
    return end.status


def test_it_stands_in_the_record_of_the_end_once_however_often_the_task_was_tried() -> None:
    script = Script(retries=1).running(A0)
    script.fail(A0)
    script.wait(script.definition.retry_delay_ms)
    script.begin(A0)
    status = ended(script.feed(TaskFinished, task=A0, result=None, wrote=(WRITE,)))
    assert (status.attempt, status.wrote) == (2, (ORDERS,))
    written = decode(status.encoded())
    assert written["wrote"] == [{"name": "orders", "uri": "s3://lake/orders", "rows": 7}]
    assert TaskStatus.from_json(written) == status
    assert "wrote" not in replaced(status, wrote=()).to_json(), "most tasks say nothing"


def test_an_end_for_which_there_is_no_room_has_written_nothing() -> None:
    """It failed: another attempt writes it again."""
    script = Script().running(A0)
    script.feed(TaskFinished, task=A0, result="x", wrote=(WRITE,))
    status = ended(script.answer(EndRefused, A0, refusal="too large"))
    assert (status.state, status.wrote) == (TaskState.FAILED, ())


def test_the_tasks_of_a_job_add_up_in_its_report() -> None:
    jobs = jobs_snapshot(job(), tasks=4)
    finished, stopped = TaskState.FINISHED, TaskState.STOPPED
    status = status_snapshot(jobs, "job", finished, finished, finished, stopped)
    unknown = WrittenAsset(name="items", uri="items")
    wrote = [(ORDERS, unknown), (ORDERS,), (WrittenAsset(name="items", uri="items", rows=2),), (ORDERS,)]
    for index, assets in enumerate(wrote):
        task = TaskId("job", index)
        status = replace(status, tasks={**status.tasks, task: replaced(status.tasks[task], wrote=assets)})
    report = JobReport.of("job", jobs, status)
    assert report is not None
    assert report.to_json()["assets"] == [
        {"name": "orders", "uri": "s3://lake/orders", "rows": 14, "tasks": 2},
        {"name": "items", "uri": "items", "rows": None, "tasks": 2},
    ]


@pytest.mark.parametrize("writes", [{"orders": 5}, {"orders": -5}, "orders"])
async def test_the_runner_that_runs_nothing_says_what_it_is_told_to(writes: Any) -> None:
    events: asyncio.Queue[RunnerEvent] = asyncio.Queue()
    await begins_at_once(NoopRunner(events.put_nowait)).start(replace(ORDER, config={"seconds": 0, "writes": writes}))
    while not isinstance(last := await asyncio.wait_for(events.get(), DEADLINE_S), LastEvent):
        pass
    if writes == {"orders": 5}:
        assert isinstance(last, TaskFinished)
        assert last.wrote == (AssetWrite("orders", "orders", 5),)
    else:
        assert isinstance(last, TaskFailed)
        assert "must be" in last.error
