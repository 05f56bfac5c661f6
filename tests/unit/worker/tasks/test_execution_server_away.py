"""What a worker does with detached tasks whose server does not answer, perhaps for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, ME, OTHER, Script, words, written
from group_records import record_of

from airflow_provider.spark.runner import QueryAdopted, QueryDetached, QueryUnreachable
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Restart
from airflow_provider.state.views.status_view import Point
from airflow_provider.values.model import NO_TASKS, ConfigOffset, Epoch, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.events import TasksRevoked
from airflow_provider.worker.tasks.runs.run_state import RunState

HANDLE = {"server": "sc://h", "session_id": "s", "query_id": "q"}


def watching(**settings: Any) -> Script:
    """A worker that watches a detached stream, whose record it has read."""
    script = Script(kind=TaskKind.STREAMING, **settings)
    script.read(replace(script.jobs, offset=ConfigOffset(10)))
    script.give(A0)
    script.begin(A0, handle={"server": "sc://h", "session_id": "s"})
    script.read_back(A0)
    told = written(script.feed(QueryDetached, task=A0, handle=HANDLE), TaskState.RUNNING)
    script.say(told)
    return script


def gone(script: Script) -> list[str]:
    """Somebody declares that the query has certainly ended."""
    return words(script.say(replaced(script.status.tasks[A0], state=TaskState.STOPPED)))


def alter(script: Script) -> list[str]:
    return words(script.plan({"i": 7}, {"i": 1}, {"i": 2}))


# ---- queries that were declared gone are not waited for


def test_a_watched_query_that_is_declared_gone_is_started_again() -> None:
    script = watching()
    assert gone(script) == ["stop watching a:0", "write a:0 pending", "start a:0 #2"]


def test_a_stopping_task_whose_query_is_declared_gone_is_released() -> None:
    script = watching()
    assert words(script.read(JobsSnapshot())) == ["stop a:0: it is no longer configured"]
    assert gone(script) == ["stop watching a:0", "write a:0 stopped", "released a:0"]


def test_a_restarting_task_whose_query_is_declared_gone_is_started_again() -> None:
    script = watching()
    assert alter(script) == ["stop a:0: its configuration has changed"]
    assert gone(script) == ["stop watching a:0", "write a:0 stopped", "start a:0 #1"]


@pytest.mark.parametrize("other", [{"attempt": 7}, {"handle": {**HANDLE, "session_id": "t"}}, {"handle": None}])
def test_a_declaration_about_another_query_changes_nothing(other: dict[str, Any]) -> None:
    script = watching()
    last = replaced(script.status.tasks[A0], state=TaskState.STOPPED, **other)
    assert words(script.say(last)) == []
    assert script.state(A0) is RunState.STARTED


# ---- the group does not wait for a server


@pytest.mark.parametrize("stopping", [lambda script: alter(script), lambda script: script.read(JobsSnapshot())])
def test_a_task_that_is_revoked_while_it_stops_is_let_go_of(stopping: Any) -> None:
    script = watching()
    stopping(script)
    told = words(script.revoke(A0))
    assert [word for word in told if "orphan" not in word] == ["stop watching a:0", "released a:0"]


def test_a_query_that_was_let_go_of_is_ended_if_no_worker_is_to_have_it() -> None:
    script = watching()
    script.read(JobsSnapshot())
    assert "end a:0, orphan" in words(script.revoke(A0))


@pytest.mark.parametrize(
    ("others", "then"),
    [
        ([OTHER], ["stop watching a:0", "released a:0"]),
        ([], ["stop a:0: no worker stays in the group"]),
    ],
)
def test_a_leaving_worker_leaves_a_stopping_task_to_workers_that_stay(others: list[WorkerId], then: list[str]) -> None:
    script = watching()
    script.status = replace(script.status, group=record_of(dict.fromkeys([ME, *others], NO_TASKS)), point=Point())
    alter(script)
    assert words(script.feed(TasksRevoked, tasks=frozenset({A0}), reason="leaving", for_good=True)) == []
    mine = WorkerStatus(worker=ME, state=WorkerPhase.STOPPING, epoch=Epoch(1), slots=2, process="host/place/1/2")
    script.status = replace(script.status, workers={ME: mine}, point=Point())
    assert words(script.read(script.jobs)) == then


def test_a_task_that_may_still_be_running_says_so() -> None:
    script = watching()
    alter(script)
    told = script.feed(QueryUnreachable, task=A0, why="sc://h: nobody answers")
    last = written(told, TaskState.PENDING)
    assert (last.lives_on, last.handle) == (True, HANDLE)
    script.read(JobsSnapshot())
    script = watching()
    script.read(JobsSnapshot())
    told = script.feed(QueryUnreachable, task=A0, why="sc://h: nobody answers")
    assert words(told) == ["task a:0 was told to stop, and may still be running: sc://h: nobody answers"]


def test_what_a_server_says_is_told_without_secrets() -> None:
    script = watching()
    settings = script.execution.settings
    script.execution.settings = replace(settings, mask=lambda text: text.replace("tok3n", "***"))
    script.read(JobsSnapshot())
    told = script.feed(QueryUnreachable, task=A0, why="sc://h: no tok3n")
    assert words(told) == ["task a:0 was told to stop, and may still be running: sc://h: no ***"]


@pytest.mark.parametrize("again", [False, True])
def test_the_reason_for_waiting_is_gone_when_the_query_is_adopted(again: bool) -> None:
    script = Script(kind=TaskKind.STREAMING)
    left_behind(script)
    script.give(A0, epoch=2)
    waits = written(script.feed(QueryUnreachable, task=A0, why="nobody answers"), TaskState.PENDING)
    if again:
        script = Script(kind=TaskKind.STREAMING)
        script.say(waits)
        script.give(A0, epoch=3)
    adopted = script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert written(adopted, TaskState.RUNNING).error is None


# ---- requests while the worker was away


def left_behind(script: Script, **more: Any) -> None:
    """Another worker has started the query, and is away."""
    work = script.jobs.work_of(A0)
    assert work is not None
    said = TaskStatus(
        task=A0,
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=OTHER,
        run_key=work.definition.run_key,
        kind=TaskKind.STREAMING,
        fingerprint=work.fingerprint,
        started_at_ms=1,
        handle=HANDLE,
        failures=1,
    )
    script.say(replaced(said, **more))


def test_a_record_says_how_far_requests_were_read() -> None:
    script = watching()
    last = script.status.tasks[A0]
    assert (last.worker, last.read_to) == (ME, 10)
    assert TaskStatus.from_json(last.to_json()) == last


def test_a_restart_requested_while_the_worker_was_away_ends_the_query_first() -> None:
    script = Script(kind=TaskKind.STREAMING)
    left_behind(script, read_to=10)
    asked = Restart(by="me", offset=12)
    script.read(replace(script.jobs, offset=ConfigOffset(13), task_restarts={A0: asked}))
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #1", "stop a:0: a restart was requested by me"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #2"]
    assert script.execution.runs[A0].failures == 0, "it has all its retries"


def test_each_request_is_carried_out_once() -> None:
    script = Script(kind=TaskKind.STREAMING)
    left_behind(script, read_to=13)
    asked = Restart(by="me", offset=12)
    script.read(replace(script.jobs, offset=ConfigOffset(20), task_restarts={A0: asked}))
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #1"]
    adopted = script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert written(adopted, TaskState.RUNNING).read_to == 13, "the next worker carries out later requests"
