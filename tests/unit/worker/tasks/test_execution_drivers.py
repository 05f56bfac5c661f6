"""What a worker does with tasks of which a cluster runs the drivers: the machine, event by event."""

from __future__ import annotations

from typing import Any

import pytest
from execution_script import A0, A1, ME, Script, words, written
from test_execution_detached import leaves, of_group, says

from airflow_provider.spark.runner import QueryAdopted, QueryDetached, TaskFinished, TaskStopped
from airflow_provider.state.records import TaskKind, TaskState, WorkerPhase, is_driver
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import Epoch
from airflow_provider.worker.tasks.events import TasksRevoked

HANDLE = {"cluster": "yarn", "tag": "cospark-1", "since_ms": 0, "result": {"applications": ["etl"]}}
RESULT = {"applications": ["etl"], "seconds": 7.0}


def submitted(**settings: Any) -> Script:
    """A worker whose process has submitted a driver."""
    script = Script(**settings)
    script.give(A0)
    script.begin(A0)
    script.feed(QueryDetached, task=A0, handle=HANDLE)
    return script


def moved(**settings: Any) -> Script:
    """A worker that has got the task of another one, which has submitted a driver."""
    script = Script(**settings)
    script.runs_there(A0, attempt=3, handle=HANDLE)
    script.give(A0, epoch=2)
    return script


def test_its_code_is_called_at_once_and_the_handle_is_written_when_it_is_submitted() -> None:
    script = Script()
    script.give(A0)
    assert words(script.begin(A0)) == ["insist on where a:0 begins", "let a:0 begin"]
    alone = script.feed(QueryDetached, task=A0, handle=HANDLE)
    assert words(alone) == ["watch a:0", "write a:0 running"]
    told = written(alone, TaskState.RUNNING)
    assert (told.handle, told.kind, told.attempt, told.server) == (HANDLE, TaskKind.BATCH, 1, "yarn")


def test_a_process_is_not_needed_and_the_slot_is_taken() -> None:
    script = submitted(linger_ms=1_000, slots=1)
    script.wait(1_000)
    assert script.execution.done(script.now)
    assert script.execution.runs.busy == 1
    assert words(script.give(A1)) == []


def test_it_is_no_stream_that_could_stall() -> None:
    for script in (submitted(), moved()):
        if not script.execution.runs[A0].state.runs:
            script.feed(QueryAdopted, task=A0, handle=HANDLE)
        assert words(script.wait(24 * 3_600_000)) == []
        assert script.execution.runs[A0].kind is TaskKind.BATCH


def test_nobody_sees_whether_it_moves_so_all_its_time_counts_as_going_well() -> None:
    script = moved(kind=TaskKind.STREAMING, retries=1)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert script.execution.runs[A0].liveness.moving_ms() is None
    assert words(script.wait(24 * 3_600_000)) == []


def test_its_end_is_that_of_the_task() -> None:
    script = submitted()
    assert written(script.feed(TaskFinished, task=A0, result=RESULT), TaskState.FINISHED).result == RESULT


def test_a_triggerer_asks_for_a_process_to_submit_it_again() -> None:
    script = moved(in_triggerer=True, linger_ms=0, retries=1)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert not script.execution.done(script.now)
    again = written(script.fail(A0, "driver app_1 failed"), TaskState.PENDING)
    assert (again.attempt, again.failures, again.handle, again.after) == (4, 1, None, HANDLE)
    script.wait(600_000)
    assert script.execution.done(script.now)


def test_the_next_worker_adopts_it_and_the_attempt_stays_the_same() -> None:
    script = moved()
    adopted = written(script.feed(QueryAdopted, task=A0, handle=HANDLE), TaskState.RUNNING)
    assert (adopted.attempt, adopted.worker, adopted.handle, adopted.kind) == (3, ME, HANDLE, TaskKind.BATCH)


def test_it_goes_on_if_its_task_moves_or_the_last_worker_leaves() -> None:
    script = submitted()
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]
    script = of_group(submitted(), ME)
    assert leaves(script, A0) == ["stop watching a:0", "released a:0"], "nobody need be there for it"


@pytest.mark.parametrize(("removed", "done"), [(False, set()), (True, {"end a:1, orphan"})])
def test_the_last_worker_that_leaves_kills_only_drivers_that_are_not_to_run(removed: bool, done: set[str]) -> None:
    script = of_group(Script(), ME)
    script.runs_there(A1, handle=HANDLE)
    leaves(script)
    says(script, ME, WorkerPhase.STOPPING)
    assert {*words(script.read(JobsSnapshot() if removed else script.jobs))} == done


def test_it_is_killed_if_its_job_is_removed() -> None:
    script = submitted()
    assert words(script.read(JobsSnapshot())) == ["stop a:0: it is no longer configured"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_it_is_killed_and_submitted_again_if_its_config_changes() -> None:
    script = submitted()
    assert words(script.plan({"i": 7}, {"i": 1}, {"i": 2})) == ["stop a:0: its configuration has changed"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #1"]


def test_one_that_is_submitted_while_its_task_begins_to_move_goes_on() -> None:
    script = Script()
    script.give(A0)
    script.begin(A0)
    script.feed(TasksRevoked, tasks=frozenset({A0}), reason="revoked")
    alone = words(script.feed(QueryDetached, task=A0, handle=HANDLE))
    assert alone == ["watch a:0", "write a:0 running", "stop watching a:0", "released a:0"]


def test_one_that_is_submitted_while_its_job_is_removed_is_killed() -> None:
    script = Script()
    script.give(A0)
    script.begin(A0)
    script.read(JobsSnapshot())
    stopped = TaskStopped(order=None, reason="")  # type: ignore[arg-type]
    alone = words(script.feed(QueryDetached, task=A0, handle=HANDLE, otherwise=stopped))
    assert alone == ["watch a:0", "write a:0 running", "stop a:0: it was told to stop"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_the_next_attempt_begins_although_the_record_of_the_driver_comes_late() -> None:
    """It looks for the driver itself, so there is no second one."""
    script = Script()
    script.give(A0, epoch=2)
    script.runs_there(A0, handle=HANDLE, epoch=Epoch(1))
    assert "let a:0 begin" in words(script.begin(A0))


def test_a_triggerer_that_can_not_watch_it_asks_for_a_process() -> None:
    script = moved(in_triggerer=True, linger_ms=0)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert not script.execution.done(script.now)
    script.execution.lacks = "HADOOP_CONF_DIR: it is not set"
    assert script.execution.done(script.now)


def test_a_triggerer_that_only_watches_drivers_asks_for_a_process_to_learn_a_task() -> None:
    script = moved(in_triggerer=True, warms_up=False, linger_ms=0)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert words(script.learn(A1)) == []
    assert script.execution.done(script.now)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_process_that_can_not_watch_it_stays_as_long_as_any(slots: int) -> None:
    script = submitted(linger_ms=1_000, slots=slots)
    script.execution.lacks = "HADOOP_CONF_DIR: it is not set"
    assert not script.execution.done(script.now)


def test_handles_of_queries_are_none_of_drivers() -> None:
    assert is_driver(HANDLE)
    assert not any(map(is_driver, (None, "tag", {"server": "sc://h", "session_id": "s"}, ["tag"])))
