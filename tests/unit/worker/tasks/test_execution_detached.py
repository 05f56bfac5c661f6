"""What a worker does with detached tasks: the machine, event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from execution_script import A0, A1, ME, OTHER, PLANNER, Script, words, written
from group_records import record_of
from runner_events import event_of

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.spark.runner import (
    AttemptEvent,
    QueryAdopted,
    QueryCleared,
    QueryDetached,
    QueryUnreachable,
    SparkLost,
    TaskFailed,
    TaskFinished,
    TaskStopped,
)
from airflow_provider.state.records import (
    StreamProgress,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import Point, StatusSnapshot
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, WorkerId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import EndOrphan
from airflow_provider.worker.tasks.events import Closed, LeavesForGood, StartWritten, TasksRevoked
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.state import LAST_WORDS_MS, Execution

STREAMING: dict[str, Any] = {"kind": TaskKind.STREAMING}
HANDLE = {"session": "s", "query": "q"}


def runs_elsewhere(script: Script, task: TaskId, **more: Any) -> Script:
    """Another worker has written that the task runs, with the handle of its query."""
    work = script.jobs.work_of(task)
    assert work is not None
    said = TaskStatus(
        task=task,
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=OTHER,
        run_key=work.definition.run_key,
        kind=TaskKind.STREAMING,
        fingerprint=work.fingerprint,
        attempt=3,
        started_at_ms=script.now + script.wall_ahead - 5_000,
        handle=HANDLE,
    )
    script.say(replaced(said, **more))
    return script


def says(script: Script, worker: WorkerId, state: WorkerPhase, **more: Any) -> None:
    """A worker has written its own record."""
    said = WorkerStatus(worker=worker, state=state, epoch=Epoch(1), slots=2, process="host/place/1/2", **more)
    workers = {**script.status.workers, worker: said}
    script.status = replace(script.status, workers=workers, point=Point())


def of_group(script: Script, *workers: WorkerId) -> Script:
    """These workers are in the group."""
    record = record_of(dict.fromkeys(workers, NO_TASKS))
    script.status = replace(script.status, group=record, point=Point())
    return script


def lead(script: Script, leader: WorkerId) -> None:
    assert script.status.group is not None
    script.status = replace(script.status, group=replace(script.status.group, leader=leader), point=Point())


# ---- it begins


def test_the_code_is_called_when_its_handle_has_been_read_back() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    begun = script.begin(A0, handle={"session": "s"})
    assert words(begun) == ["insist on where a:0 begins"]
    assert words(script.answer(StartWritten, A0)) == [], "the record of another worker may win"
    assert words(script.read_back(A0)) == ["let a:0 begin"]
    alone = script.feed(QueryDetached, task=A0, handle=HANDLE)
    assert words(alone) == ["watch a:0", "write a:0 running"]
    assert written(alone, TaskState.RUNNING).handle == HANDLE


def test_an_attempt_does_not_begin_if_it_reads_of_an_earlier_query() -> None:
    script = Script(**STREAMING)
    script.give(A0, epoch=2)
    script.begin(A0, handle={"session": "mine"})
    said = script.execution.runs[A0].status(TaskState.RUNNING, ME)
    other = replaced(said, worker=OTHER, epoch=Epoch(1), handle=HANDLE)
    script.status = replace(script.status, unended={A0: (other,)})
    assert words(script.say(said)) == ["stop a:0: its earlier query may still be running"]
    stopped = words(script.stopped(A0))
    assert stopped == ["give up a:0", "write a:0 stopped", "take over a:0 #2"]


def test_an_attempt_does_not_begin_if_the_record_of_another_worker_counts() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "mine"})
    said = script.execution.runs[A0].status(TaskState.RUNNING, ME)
    script.answer(StartWritten, A0)
    assert words(script.say(replaced(said, worker=OTHER, epoch=Epoch(2), handle=HANDLE))) == []


def test_an_attempt_that_is_told_to_stop_before_its_handle_is_stored_never_begins() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "s"})
    script.revoke(A0)
    assert words(script.answer(StartWritten, A0)) == []
    assert words(script.stopped(A0)) == ["give up a:0", "write a:0 stopped", "released a:0"]


def test_a_query_that_is_detached_while_its_task_is_told_to_stop_is_ended() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "s"})
    script.read_back(A0)
    script.revoke(A0)
    alone = words(script.feed(QueryDetached, task=A0, handle=HANDLE))
    assert alone == ["watch a:0", "write a:0 running", "stop a:0: it was told to stop"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


# ---- where the membership is held


def test_a_worker_with_only_detached_tasks_needs_no_process() -> None:
    script = Script(linger_ms=1_000, slots=1, tasks=2, **STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    assert not script.execution.done(script.now)
    script.wait(1_000)
    assert script.execution.done(script.now), "the other task waits for a slot that the stream keeps"


def test_a_process_stays_while_an_attempt_runs_in_it() -> None:
    script = Script(linger_ms=1_000, **STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    script.begin(A1)
    script.wait(10_000)
    assert not script.execution.done(script.now)


def test_a_triggerer_starts_nothing_and_asks_for_a_process() -> None:
    script = Script(in_triggerer=True, linger_ms=0)
    assert words(script.give(A0)) == []
    assert script.execution.done(script.now)


def test_a_triggerer_asks_for_no_process_if_no_slot_is_free() -> None:
    script = Script(in_triggerer=True, linger_ms=0, slots=1, tasks=2, replan_interval_ms=60_000, **STREAMING)
    runs_elsewhere(script, A0)
    script.give(A0, A1)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert not script.execution.done(script.now)
    script.give(PLANNER)
    assert script.execution.done(script.now), "a planner needs no slot"


def test_a_triggerer_writes_the_end_of_a_task() -> None:
    script = Script(in_triggerer=True, **STREAMING)
    runs_elsewhere(script, A0).give(A0, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    ended = script.feed(TaskFinished, task=A0, result={"last_batch": 7})
    assert words(ended) == ["insist on a:0 finished"]


def test_a_triggerer_asks_for_a_process_to_restart_a_lost_query() -> None:
    script = Script(in_triggerer=True, linger_ms=0, **STREAMING)
    runs_elsewhere(script, A0).give(A0, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    lost = script.feed(SparkLost, task=A0, spark=-1, error="it was restarted")
    assert words(lost) == ["write a:0 pending", "task a:0 is to run again: it was restarted"]
    assert written(lost, TaskState.PENDING).handle is None, "the query no longer runs"
    assert not script.execution.done(script.now), "Spark is given a moment"
    script.wait(1_000)
    assert script.execution.done(script.now)


def test_a_triggerer_hands_over_only_after_queries_have_ended() -> None:
    """In between, the next process would take the query for one that has ended by itself, and its task for finished."""
    script = Script(in_triggerer=True, linger_ms=0, tasks=2, **STREAMING)
    for task in (A0, A1):
        runs_elsewhere(script, task, handle={**HANDLE, "session": str(task)})
    script.give(A0, A1, epoch=2)
    for task in (A0, A1):
        script.feed(QueryAdopted, task=task, handle={**HANDLE, "session": str(task)})
    script.plan({"i": 7}, {"i": 8})
    script.stopped(A0)
    assert not script.execution.done(script.now), "the other one has not stopped yet"
    script.stopped(A1)
    assert script.execution.done(script.now), "both are to be started"


def test_a_process_hands_over_only_after_queries_have_ended() -> None:
    script = Script(linger_ms=1_000, tasks=2, **STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    script.detached(A1)
    script.plan({"i": 0})
    assert script.execution.state_of(A1) is RunState.STOPPING
    script.wait(10_000)
    assert not script.execution.done(script.now)
    script.stopped(A1)
    script.wait(1_000)
    assert script.execution.done(script.now)


# ---- queries that may not have been started


def left_open(otherwise: type[AttemptEvent], **fields: Any) -> Script:
    """Of an attempt that has ended in this way, it is not known whether it has started its query."""
    script = Script(linger_ms=1_000, retries=1, **STREAMING)
    script.give(A0)
    script.begin(A0, handle=HANDLE)
    script.read_back(A0)
    end = event_of(otherwise, task=A0, **fields)
    script.feed(QueryDetached, task=A0, handle=HANDLE, otherwise=end)
    return script


def test_an_attempt_that_has_failed_pays_for_it_if_its_query_was_not_started() -> None:
    script = left_open(TaskFailed, error="boom", retryable=True)
    said = written(script.feed(QueryCleared, task=A0), TaskState.PENDING)
    assert (said.failures, said.error) == (1, TaskFailure.of("boom"))


def test_an_attempt_whose_server_has_ended_is_a_suspect_if_its_query_was_not_started() -> None:
    script = left_open(SparkLost, spark=1, error="it does not answer")
    said = written(script.feed(QueryCleared, task=A0), TaskState.PENDING)
    assert (said.failures, said.spark_deaths) == (0, 1)


def test_an_attempt_whose_server_has_ended_before_its_code_was_called_is_no_suspect() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    lost = event_of(SparkLost, task=A0, spark=1, error="it does not answer")
    script.feed(QueryDetached, task=A0, handle=HANDLE, otherwise=lost)
    said = written(script.feed(QueryCleared, task=A0), TaskState.PENDING)
    assert (said.failures, said.spark_deaths) == (0, 0)


def test_an_attempt_that_was_only_stopped_pays_nothing() -> None:
    script = left_open(TaskStopped, reason="")
    said = written(script.feed(QueryCleared, task=A0), TaskState.PENDING)
    assert (said.failures, said.spark_deaths) == (0, 0)


def test_if_its_query_runs_nevertheless_nothing_has_failed() -> None:
    script = left_open(TaskFailed, error="boom", retryable=True)
    said = written(script.feed(QueryAdopted, task=A0, handle={**HANDLE, "query": "r"}), TaskState.RUNNING)
    assert said.failures == 0


def test_the_process_stays_because_only_it_knows_how_the_attempt_has_ended() -> None:
    script = left_open(TaskFailed, error="boom", retryable=True)
    script.wait(60_000)
    assert not script.execution.done(script.now)


# ---- queries that another worker has started


def test_a_running_query_is_adopted() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3"]
    adopted = script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert words(adopted) == ["write a:0 running", "task a:0 keeps running, and is watched from here"]
    told = written(adopted, TaskState.RUNNING)
    assert (told.attempt, told.worker, told.epoch, told.handle) == (3, ME, 2, HANDLE)


def test_nothing_is_written_if_a_worker_adopts_its_own_query() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0, worker=ME)
    script.give(A0, epoch=1)
    assert words(script.feed(QueryAdopted, task=A0, handle=HANDLE)) == []


def test_a_new_attempt_starts_if_the_earlier_query_has_ended() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    assert words(script.feed(QueryCleared, task=A0)) == ["write a:0 pending", "start a:0 #4"]


def test_a_worker_may_adopt_more_than_its_slots_and_then_starts_nothing() -> None:
    script = Script(slots=1, tasks=3, **STREAMING)
    runs_elsewhere(runs_elsewhere(script, A0), A1)
    script.give(A0, A1, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    script.feed(QueryAdopted, task=A1, handle=HANDLE)
    assert words(script.give(TaskId("a", 2), epoch=2)) == []


def test_nothing_is_started_while_the_earlier_query_is_unreachable() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    told = script.feed(QueryUnreachable, task=A0, why="sc://other: nobody answers")
    status = written(told, TaskState.PENDING)
    assert status.handle == HANDLE
    assert status.error is not None
    assert "sc://other" in status.error.message
    assert status.lives_on, "the next worker of the task also has to find it"
    assert words(script.feed(QueryCleared, task=A0))[-1] == "start a:0 #4"


def test_the_next_worker_takes_over_an_unreachable_query() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0, state=TaskState.PENDING)
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3"]
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]


def test_a_query_of_an_older_plan_is_ended_before_a_new_attempt() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.plan({"i": 7}, {"i": 1}, {"i": 2})
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3", "stop a:0: its configuration has changed"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #4"]


# ---- it moves, its worker leaves


def test_a_query_whose_task_moves_is_let_go_of_without_a_record() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.detached(A0)
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]
    assert script.execution.stopped_running == 0, "nothing was stopped"


def test_a_process_that_ends_lets_go_without_a_record() -> None:
    script = Script(**STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    assert words(script.feed(Closed)) == ["stop watching a:0"]


def leaves(script: Script, *tasks: TaskId) -> list[str]:
    assert words(script.feed(LeavesForGood)) == []
    return words(script.feed(TasksRevoked, tasks=frozenset(tasks), reason="leaving", for_good=True))


def test_a_leaving_worker_looks_for_others_after_its_own_record_was_read() -> None:
    script = of_group(Script(**STREAMING), ME, OTHER)
    script.give(A0)
    script.detached(A0)
    assert leaves(script, A0) == []
    says(script, ME, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["stop watching a:0", "released a:0"], "the other worker adopts it"


def test_the_last_worker_that_leaves_ends_all_queries() -> None:
    script = of_group(Script(**STREAMING), ME, OTHER)
    script.give(A0)
    script.detached(A0)
    runs_elsewhere(script, A1)
    leaves(script, A0)
    says(script, OTHER, WorkerPhase.STOPPING)
    says(script, ME, WorkerPhase.STOPPING)
    done = script.read(script.jobs)
    assert words(done) == ["end a:1, orphan", "stop a:0: no worker stays in the group"]
    assert any(isinstance(command, EndOrphan) for command in done), "the other worker had let go of it"
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_the_last_worker_ends_the_queries_of_others_even_if_it_has_none() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A1), ME, OTHER)
    says(script, ME, WorkerPhase.STOPPING)
    assert leaves(script) == []
    assert words(script.read(script.jobs)) == [], "the other one stays"
    says(script, OTHER, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["end a:1, orphan"]


def test_queries_are_left_to_a_worker_that_is_expected_back() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A1), ME, OTHER)
    leaves(script)
    says(script, ME, WorkerPhase.STOPPING)
    cleared = {"left": LeaveReason.RESTARTING, "returns_ms": 90_000, "at_ms": script.now + script.wall_ahead}
    says(script, OTHER, WorkerPhase.LEFT, **cleared)
    assert words(script.read(script.jobs)) == []
    script.wait(90_000)
    script.status = replace(script.status)
    assert words(script.read(script.jobs)) == ["end a:1, orphan"], "it has not come back"


def test_a_leaving_worker_ends_nothing_if_it_reads_no_records() -> None:
    script = of_group(Script(**STREAMING), ME)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    assert words(script.wait(LAST_WORDS_MS)) == ["stop watching a:0", "released a:0"]


def test_a_query_whose_job_is_removed_while_its_worker_leaves_is_ended() -> None:
    script = of_group(Script(**STREAMING), ME)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    assert words(script.read(JobsSnapshot())) == ["stop a:0: it is no longer configured"]
    assert script.execution.runs[A0].state is RunState.STOPPING


def test_nobody_stays_in_a_group_without_a_record() -> None:
    script = Script(status=StatusSnapshot(), **STREAMING)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    says(script, ME, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["stop a:0: no worker stays in the group"]


# ---- orphans


def test_the_leader_ends_the_queries_of_a_removed_job_whose_worker_is_away() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A0), ME)
    lead(script, WorkerId("w3"))
    assert words(script.read(JobsSnapshot())) == []
    lead(script, ME)
    assert words(script.read(JobsSnapshot())) == ["end a:0, orphan"]


def test_a_process_ends_the_orphans_that_the_process_before_was_ending() -> None:
    before = of_group(runs_elsewhere(Script(**STREAMING), A0, worker=ME), ME)
    before.read(JobsSnapshot())
    begins = Script()
    begins.execution = Execution(begins.execution.settings, JobsSnapshot(), before.status, now_ms=begins.now)
    assert words(begins.give()) == ["end a:0, orphan"]
    assert words(begins.give()) == [], "once is enough: it is tried until the query has ended"


def test_the_leader_leaves_a_query_to_its_worker_in_the_group() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A0), ME, OTHER)
    lead(script, ME)
    assert words(script.read(JobsSnapshot())) == []


def test_a_new_attempt_starts_if_the_query_was_declared_gone() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    script.feed(QueryUnreachable, task=A0, why="nobody answers")
    last = script.status.tasks[A0]
    told = script.say(replaced(last, state=TaskState.STOPPED))
    assert words(told) == ["stop watching a:0", "write a:0 pending", "start a:0 #4"]


def test_a_triggerer_that_only_watches_has_nothing_to_stand_back_from() -> None:
    """Whoever starts these queries shows whether it can. The task that holds the membership must not fail."""
    script = Script(in_triggerer=True, linger_ms=0, retries=5, **STREAMING)
    for task in (A0, A1):
        runs_elsewhere(script, task).give(task, epoch=2)
        script.feed(QueryAdopted, task=task, handle=HANDLE)
        script.fail(task)
    for task in (A0, A1):
        failed = script.execution.runs[task].status(TaskState.RUNNING, OTHER)
        progress = StreamProgress(batch=1, rows_per_second=1.0, at_ms=0)
        script.revoke(task)
        script.say(replaced(failed, epoch=Epoch(3), progress=progress))
    assert script.execution.blamed == ""
