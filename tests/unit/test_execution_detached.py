"""What a worker does with tasks that go on without its process: the machine, event by event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from execution_script import A0, A1, ME, OTHER, PLANNER, Script, words, written
from group_records import record_of

from airflow_provider.assignors.model import LeaveReason
from airflow_provider.execution.commands import EndOrphan
from airflow_provider.execution.events import (
    AttemptFinished,
    Closed,
    HandleWritten,
    LeavesForGood,
    QueryAdopted,
    QueryCleared,
    QueryUnreachable,
    SparkLost,
    StreamBegan,
    TasksRevoked,
)
from airflow_provider.execution.state import LAST_WORDS_MS, Execution, Place
from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.status_view import Point, StatusSnapshot
from airflow_provider.protocol.model import NO_TASKS, Epoch, TaskId, WorkerId
from airflow_provider.records import TaskFailure, TaskKind, TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.runs.runs import RunState

STREAMING: dict[str, Any] = {"kind": TaskKind.STREAMING}
HANDLE = {"session": "s", "query": "q"}


def runs_elsewhere(script: Script, task: TaskId, **more: Any) -> Script:
    """Another worker has said that the task runs, and how it is found."""
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
    script.say(replace(said, **more))
    return script


def says(script: Script, worker: WorkerId, state: WorkerPhase, **more: Any) -> None:
    """What a worker says of itself stands in the topic."""
    said = WorkerStatus(worker=worker, state=state, epoch=Epoch(1), slots=2, process="host/place/1/2", **more)
    workers = {**script.status.workers, worker: said}
    script.status = replace(script.status, workers=workers, point=Point())


def of_group(script: Script, *workers: WorkerId) -> Script:
    """They are in the group."""
    record = record_of(dict.fromkeys(workers, NO_TASKS))
    script.status = replace(script.status, group=record, point=Point())
    return script


def lead(script: Script, leader: WorkerId) -> None:
    assert script.status.group is not None
    script.status = replace(script.status, group=replace(script.status.group, leader=leader), point=Point())


# ---- it begins


def test_the_code_is_called_when_it_is_stored_where_it_begins() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    begun = script.begin(A0, handle={"session": "s"})
    assert words(begun) == ["insist on where a:0 begins"]
    assert words(script.answer(HandleWritten, A0)) == [], "another one's word may win"
    assert words(script.read_back(A0)) == ["let a:0 begin"]
    alone = script.feed(StreamBegan, task=A0, handle=HANDLE)
    assert words(alone) == ["watch a:0", "write a:0 running"]
    assert written(alone, TaskState.RUNNING).handle == HANDLE


def test_who_reads_of_another_begin_first_does_not_begin() -> None:
    script = Script(**STREAMING)
    script.give(A0, epoch=2)
    script.begin(A0, handle={"session": "mine"})
    said = script.execution.runs[A0].status(TaskState.RUNNING, ME)
    other = replace(said, worker=OTHER, epoch=Epoch(1), handle=HANDLE)
    script.status = replace(script.status, unended={A0: (other,)})
    assert words(script.say(said)) == ["stop a:0: its earlier query may still be running"]
    stopped = words(script.stopped(A0))
    assert stopped == ["give up a:0", "write a:0 stopped", "take over a:0 #2"]


def test_who_has_been_overtaken_by_another_does_not_begin() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "mine"})
    said = script.execution.runs[A0].status(TaskState.RUNNING, ME)
    script.answer(HandleWritten, A0)
    assert words(script.say(replace(said, worker=OTHER, epoch=Epoch(2), handle=HANDLE))) == []


def test_what_is_told_to_stop_before_that_is_stored_never_begins() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "s"})
    script.revoke(A0)
    assert words(script.answer(HandleWritten, A0)) == []
    assert words(script.stopped(A0)) == ["give up a:0", "write a:0 stopped", "released a:0"]


def test_what_began_to_go_on_alone_as_it_was_told_to_stop_is_ended() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.begin(A0, handle={"session": "s"})
    script.read_back(A0)
    script.revoke(A0)
    alone = words(script.feed(StreamBegan, task=A0, handle=HANDLE))
    assert alone == ["watch a:0", "write a:0 running", "stop a:0: it was told to stop"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


# ---- where the membership is held


def test_a_worker_whose_tasks_all_go_on_alone_needs_no_process() -> None:
    script = Script(linger_ms=1_000, slots=1, tasks=2, **STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    assert not script.execution.done(script.now)
    script.wait(1_000)
    assert script.execution.done(script.now), "the other one waits for a slot that nobody gives up"


def test_as_long_as_anything_runs_in_it_the_process_stays() -> None:
    script = Script(linger_ms=1_000, **STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    script.begin(A1)
    script.wait(10_000)
    assert not script.execution.done(script.now)


def test_a_triggerer_starts_nothing_and_wants_a_process_for_it() -> None:
    script = Script(place=Place.TRIGGERER, linger_ms=0)
    assert words(script.give(A0)) == []
    assert script.execution.done(script.now)


def test_a_triggerer_wants_no_process_for_what_has_no_slot() -> None:
    script = Script(place=Place.TRIGGERER, linger_ms=0, slots=1, tasks=2, replan_interval_ms=60_000, **STREAMING)
    runs_elsewhere(script, A0)
    script.give(A0, A1)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert not script.execution.done(script.now)
    script.give(PLANNER)
    assert script.execution.done(script.now), "a planner needs no slot"


def test_what_has_ended_in_a_triggerer_is_written_there() -> None:
    script = Script(place=Place.TRIGGERER, **STREAMING)
    runs_elsewhere(script, A0).give(A0, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    ended = script.feed(AttemptFinished, task=A0, result={"last_batch": 7})
    assert words(ended) == ["insist on a:0 finished"]


def test_what_was_lost_with_its_server_wants_a_process() -> None:
    script = Script(place=Place.TRIGGERER, linger_ms=0, **STREAMING)
    runs_elsewhere(script, A0).give(A0, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    lost = script.feed(SparkLost, task=A0, spark=-1, failure=TaskFailure.of("it was restarted"))
    assert words(lost) == ["write a:0 pending"]
    assert written(lost, TaskState.PENDING).handle is None, "nothing of it runs any more"
    assert not script.execution.done(script.now), "Spark is given a moment"
    script.wait(1_000)
    assert script.execution.done(script.now)


def test_nobody_else_goes_on_while_a_query_is_being_ended() -> None:
    """Who looked at it then would take it for one that has come to its end, and its task for finished."""
    script = Script(place=Place.TRIGGERER, linger_ms=0, tasks=2, **STREAMING)
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


def test_a_process_sees_to_the_end_of_the_queries_that_it_has_ended() -> None:
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


# ---- what another worker has begun


def test_what_runs_on_is_gone_on_with() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3"]
    adopted = script.feed(QueryAdopted, task=A0, handle=HANDLE)
    assert words(adopted) == ["write a:0 running", "task a:0 keeps running, and is watched from here"]
    told = written(adopted, TaskState.RUNNING)
    assert (told.attempt, told.worker, told.epoch, told.handle) == (3, ME, 2, HANDLE)


def test_nothing_is_said_of_what_its_own_worker_goes_on_with() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0, worker=ME)
    script.give(A0, epoch=1)
    assert words(script.feed(QueryAdopted, task=A0, handle=HANDLE)) == []


def test_what_has_ended_meanwhile_is_begun_anew() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    assert words(script.feed(QueryCleared, task=A0)) == ["write a:0 pending", "start a:0 #4"]


def test_more_may_run_on_than_there_are_slots_and_nothing_else_begins() -> None:
    script = Script(slots=1, tasks=3, **STREAMING)
    runs_elsewhere(runs_elsewhere(script, A0), A1)
    script.give(A0, A1, epoch=2)
    script.feed(QueryAdopted, task=A0, handle=HANDLE)
    script.feed(QueryAdopted, task=A1, handle=HANDLE)
    assert words(script.give(TaskId("a", 2), epoch=2)) == []


def test_nothing_is_begun_on_a_guess() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    told = script.feed(QueryUnreachable, task=A0, why="sc://other: nobody answers")
    status = written(told, TaskState.PENDING)
    assert status.handle == HANDLE
    assert status.error is not None
    assert "sc://other" in status.error.message
    assert status.lives_on, "who has the task next looks, too"
    assert words(script.feed(QueryCleared, task=A0))[-1] == "start a:0 #4"


def test_who_has_the_task_next_looks_too() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0, state=TaskState.PENDING)
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3"]
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]


def test_what_runs_by_an_older_plan_is_ended_before_anything_begins() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.plan({"i": 7}, {"i": 1}, {"i": 2})
    assert words(script.give(A0, epoch=2)) == ["take over a:0 #3", "stop a:0: its configuration has changed"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #4"]


# ---- it moves, its worker leaves


def test_what_moves_is_let_go_of_and_its_record_stays_true() -> None:
    script = Script(**STREAMING)
    script.give(A0)
    script.detached(A0)
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]
    assert script.execution.stopped_running == 0, "nothing was stopped"


def test_a_process_that_ends_lets_go_without_a_word() -> None:
    script = Script(**STREAMING)
    script.give(A0, A1)
    script.detached(A0)
    assert words(script.feed(Closed)) == ["stop watching a:0"]


def leaves(script: Script, *tasks: TaskId) -> list[str]:
    assert words(script.feed(LeavesForGood)) == []
    return words(script.feed(TasksRevoked, tasks=frozenset(tasks), reason="leaving", for_good=True))


def test_who_leaves_for_good_looks_who_stays_when_it_has_said_so() -> None:
    script = of_group(Script(**STREAMING), ME, OTHER)
    script.give(A0)
    script.detached(A0)
    assert leaves(script, A0) == []
    says(script, ME, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["stop watching a:0", "released a:0"], "the other one goes on with it"


def test_the_last_one_that_leaves_ends_what_nobody_goes_on_with() -> None:
    script = of_group(Script(**STREAMING), ME, OTHER)
    script.give(A0)
    script.detached(A0)
    runs_elsewhere(script, A1)
    leaves(script, A0)
    says(script, OTHER, WorkerPhase.STOPPING)
    says(script, ME, WorkerPhase.STOPPING)
    done = script.read(script.jobs)
    assert words(done) == ["end a:1, orphan", "stop a:0: no worker stays in the group"]
    assert any(isinstance(command, EndOrphan) for command in done), "the other one had let go of it"
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_the_last_one_ends_what_others_have_let_go_of_though_it_has_nothing_itself() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A1), ME, OTHER)
    says(script, ME, WorkerPhase.STOPPING)
    assert leaves(script) == []
    assert words(script.read(script.jobs)) == [], "the other one stays"
    says(script, OTHER, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["end a:1, orphan"]


def test_who_is_to_come_back_goes_on_with_what_it_had() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A1), ME, OTHER)
    leaves(script)
    says(script, ME, WorkerPhase.STOPPING)
    cleared = {"left": LeaveReason.RESTARTING, "returns_ms": 90_000, "at_ms": script.now + script.wall_ahead}
    says(script, OTHER, WorkerPhase.LEFT, **cleared)
    assert words(script.read(script.jobs)) == []
    script.wait(90_000)
    script.status = replace(script.status)
    assert words(script.read(script.jobs)) == ["end a:1, orphan"], "it has not"


def test_who_hears_nothing_as_it_leaves_ends_nothing() -> None:
    script = of_group(Script(**STREAMING), ME)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    assert words(script.wait(LAST_WORDS_MS)) == ["stop watching a:0", "released a:0"]


def test_what_is_removed_while_its_worker_leaves_is_ended() -> None:
    script = of_group(Script(**STREAMING), ME)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    assert words(script.read(JobsSnapshot())) == ["stop a:0: it is no longer configured"]
    assert script.execution.runs[A0].state is RunState.STOPPING


def test_a_snapshot_without_a_group_has_nobody_that_stays() -> None:
    script = Script(status=StatusSnapshot(), **STREAMING)
    script.give(A0)
    script.detached(A0)
    leaves(script, A0)
    says(script, ME, WorkerPhase.STOPPING)
    assert words(script.read(script.jobs)) == ["stop a:0: no worker stays in the group"]


# ---- what nobody has


def test_what_was_removed_while_its_worker_was_away_is_ended_by_the_leader() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A0), ME)
    lead(script, WorkerId("w3"))
    assert words(script.read(JobsSnapshot())) == []
    lead(script, ME)
    assert words(script.read(JobsSnapshot())) == ["end a:0, orphan"]


def test_what_the_process_before_was_ending_is_ended_by_this_one() -> None:
    before = of_group(runs_elsewhere(Script(**STREAMING), A0, worker=ME), ME)
    before.read(JobsSnapshot())
    begins = Script()
    begins.execution = Execution(begins.execution.settings, JobsSnapshot(), before.status, now_ms=begins.now)
    assert words(begins.give()) == ["end a:0, orphan"]
    assert words(begins.give()) == [], "once: it is tried until it has ended"


def test_what_its_worker_ends_by_itself_is_left_to_it() -> None:
    script = of_group(runs_elsewhere(Script(**STREAMING), A0), ME, OTHER)
    lead(script, ME)
    assert words(script.read(JobsSnapshot())) == []


def test_what_somebody_says_to_be_gone_is_begun_anew() -> None:
    script = runs_elsewhere(Script(**STREAMING), A0)
    script.give(A0, epoch=2)
    script.feed(QueryUnreachable, task=A0, why="nobody answers")
    last = script.status.tasks[A0]
    told = script.say(replace(last, state=TaskState.STOPPED))
    assert words(told) == ["stop watching a:0", "write a:0 pending", "start a:0 #4"]
