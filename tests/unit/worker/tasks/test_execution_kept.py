"""What has failed for good keeps its place in a worker, and is tried again there when somebody wants it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from execution_script import A0, A1, A2, ME, PLANNER, Script, written

from airflow_provider.state.records import Halt, HaltRecord, TaskState, TaskStatus
from airflow_provider.state.views.placed import Placed
from airflow_provider.state.views.task_progress.retrying import to_try_again
from airflow_provider.values.model import TaskId
from airflow_provider.worker.tasks.commands import Command, ReleaseFinished, ReleaseStopped, StartAttempt
from airflow_provider.worker.tasks.events import EndWritten, FailedLetGo
from airflow_provider.worker.tasks.runs.run_state import RunState


def _failed(script: Script, task: TaskId = A0) -> TaskStatus:
    """It has failed for good, and everybody has read that."""
    last = written(script.fail(task, retryable=False), TaskState.FAILED)
    assert not _released(script.answer(EndWritten, task))
    script.say(last)
    return last


def _released(done: list[Command]) -> set[TaskId]:
    return {task for command in done if isinstance(command, ReleaseStopped | ReleaseFinished) for task in command.tasks}


def _started(done: list[Command]) -> list[TaskId]:
    return [command.run.task for command in done if isinstance(command, StartAttempt)]


def _try_again(script: Script, task: TaskId = A0) -> list[Command]:
    (again,) = to_try_again(script.definition, script.jobs.plans["a"], script.status.tasks, {task.index})
    return script.say(again)


@pytest.mark.parametrize("task", [A0, PLANNER])
def test_it_is_not_released_and_its_record_says_so(task: TaskId) -> None:
    script = Script(slots=1, replan_interval_ms=1_000).running(task)
    assert _failed(script, task).kept
    assert script.execution.state_of(task) is RunState.FAILED
    assert not script.execution.runs.active, "nothing of it runs"


def test_it_takes_no_slot_and_keeps_no_process() -> None:
    script = Script(slots=1, linger_ms=500).running(A0)
    script.give(A1)
    last = written(script.fail(A0, retryable=False), TaskState.FAILED)
    script.say(last)
    script.answer(EndWritten, A0)
    assert script.execution.state_of(A1) is RunState.STARTED
    script.begin(A1)
    script.finish(A1)
    script.answer(EndWritten, A1)
    assert not script.execution.done(script.now)
    assert script.execution.done(script.now + 500)


def test_it_starts_here_when_somebody_wants_it_and_the_topic_is_told() -> None:
    script = Script().running(A0)
    _failed(script)
    script.advance(4)
    done = _try_again(script)
    assert _started(done) == [A0]
    waits = written(done, TaskState.PENDING)
    assert (waits.worker, waits.epoch, waits.attempt, waits.failures, waits.kept) == (ME, 4, 2, 0, False)


def test_an_older_word_about_it_does_not_start_it() -> None:
    """Of what this worker writes it reads nothing for a while, and there may be other news."""
    script = Script().running(A0)
    running = script.execution.runs[A0].status(TaskState.RUNNING, ME)
    script.say(running)
    script.fail(A0, retryable=False)
    script.answer(EndWritten, A0)
    assert not _started(script.plan(*script.configs, {"i": 7}))
    assert script.execution.state_of(A0) is RunState.FAILED


def test_without_a_slot_it_waits_for_one() -> None:
    script = Script(slots=1).running(A0)
    _failed(script)
    script.give(A1)
    assert not _started(_try_again(script))
    assert script.execution.state_of(A0) is RunState.WAITING


def test_where_its_job_is_paused_it_waits_for_that_to_end() -> None:
    script = Script().running(A0)
    _failed(script)
    halts = {"a": Placed(HaltRecord(job="a", halt=Halt.PAUSED, by="me", at_ms=0), 1)}
    script.read(replace(script.jobs, halts=halts))
    assert not _started(_try_again(script))
    assert script.execution.state_of(A0) is RunState.PAUSED
    assert _started(script.read(replace(script.jobs, halts={}))) == [A0]


def test_what_is_revoked_or_let_go_of_is_released_at_once() -> None:
    script = Script().running(A0, A1)
    _failed(script, A0)
    _failed(script, A1)
    assert _released(script.revoke(A0)) == {A0}
    assert _released(script.feed(FailedLetGo)) == {A1}


def test_a_worker_that_is_to_leave_keeps_nothing_from_then_on() -> None:
    script = Script().running(A0)
    script.feed(FailedLetGo)
    assert not written(script.fail(A0, retryable=False), TaskState.FAILED).kept
    assert _released(script.answer(EndWritten, A0)) == {A0}


def test_what_is_revoked_while_its_end_is_written_is_not_kept() -> None:
    script = Script().running(A0)
    script.fail(A0, retryable=False)
    script.revoke(A0)
    assert _released(script.answer(EndWritten, A0)) == {A0}


def test_who_is_given_what_has_failed_keeps_it_likewise_and_does_not_start_it() -> None:
    """So does a process that goes on with a membership."""
    script = Script().running(A0)
    last = _failed(script)
    heir = Script(status=script.status)
    heir.say(last)
    assert not _started(heir.give(A0))
    assert heir.execution.state_of(A0) is RunState.FAILED
    assert _started(_try_again(heir)) == [A0]


def test_another_configuration_is_another_task_and_starts() -> None:
    script = Script().running(A0)
    _failed(script)
    assert _started(script.plan({"i": 100}, *script.configs[1:])) == [A0]


def test_what_is_no_longer_planned_is_released() -> None:
    script = Script().running(A2)
    _failed(script, A2)
    assert _released(script.plan(*script.configs[:2])) == {A2}
