"""The executor's machine, event by event: the exact commands that come of each."""

from __future__ import annotations

import pytest
from execution_script import A0, A1, A2, OTHER, PLANNER, Script, words, written

from airflow_provider.spark import runner
from airflow_provider.spark.runner import (
    AttemptEvent,
    LastEvent,
    LineageNamed,
    QueryStarted,
    SparkAbsent,
    SparkLost,
    TaskFinished,
    TaskStopped,
)
from airflow_provider.state.records import CheckpointClaim, TaskKind, TaskState, TaskStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import ArmTimer, StartAttempt, WritePlan
from airflow_provider.worker.tasks.events import (
    Closed,
    Drained,
    EndRefused,
    EndWritten,
    GroupJoined,
    PlanRefused,
    PlanWritten,
)
from airflow_provider.worker.tasks.machine import TRANSITIONS
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.state import LAST_WORDS_MS, ImpossibleEventError

BATCH, STREAMING = TaskKind.BATCH, TaskKind.STREAMING
NONE = JobsSnapshot()


def test_the_table_has_a_row_for_each_state_and_one_for_what_is_not_here() -> None:
    assert set(TRANSITIONS) == {None, *RunState}


def test_each_row_knows_all_that_a_runner_tells_of_an_attempt() -> None:
    kinds = {kind for kind in vars(runner).values() if isinstance(kind, type) and issubclass(kind, AttemptEvent)}
    for state, row in TRANSITIONS.items():
        assert kinds - row.keys() == {AttemptEvent, LastEvent, LineageNamed}, state


def test_nothing_ends_in_a_state_that_has_no_way_out() -> None:
    for state in RunState:
        ways = {after for rule in TRANSITIONS[state].values() for after in rule.leads_to} - {state}
        assert ways, state


def test_an_event_that_cannot_happen_is_refused_with_the_task_and_its_state() -> None:
    script = Script()
    script.give(A0)
    with pytest.raises(ImpossibleEventError, match="AttemptEvent of task a:0, which is started"):
        script.feed(AttemptEvent, task=A0)


# ---- turns


def test_a_task_runs_from_its_slot_to_its_release() -> None:
    script = Script(slots=1)
    assert words(script.give(A0, A1)) == ["start a:0 #1"]
    assert words(script.begin(A0)) == ["insist on where a:0 begins", "let a:0 begin"]
    assert words(script.finish(A0, {"rows": 1})) == ["insist on a:0 finished", "start a:1 #1"]
    assert words(script.answer(EndWritten, A0)) == ["finished a:0"]
    assert script.state(A0) is None


def test_drained_it_starts_planners_only_and_closed_nothing() -> None:
    script = Script()
    script.feed(Drained)
    assert words(script.give(A0)) == []
    script.define(replan_interval_ms=5)
    assert words(script.give(PLANNER)) == ["start a:planner #1"]
    script.feed(Closed)
    assert words(script.feed(TaskStopped, task=PLANNER, reason="")) == ["write a:planner stopped", "released a:planner"]


def test_what_has_ended_elsewhere_leaves_its_turn_to_the_next() -> None:
    script = Script(slots=1).running(A0)
    script.give(A1, A2)
    fingerprint = script.execution.runs[A1].work.fingerprint
    script.say(
        TaskStatus(
            task=A1, state=TaskState.FINISHED, epoch=Epoch(1), worker=OTHER, run_key="r", fingerprint=fingerprint
        )
    )
    assert words(script.finish(A0)) == ["insist on a:0 finished", "start a:2 #1", "released a:1"]


# ---- failures


def test_a_failure_is_followed_by_a_wait_and_an_attempt_as_often_as_the_job_says() -> None:
    script = Script(retries=1, retry_delay_ms=500).running(A0)
    failed = script.fail(A0)
    assert words(failed) == ["write a:0 pending"]
    assert ArmTimer(at_ms=script.now + 500) in failed
    assert words(script.wait(499)) == []
    assert words(script.wait(1)) == ["start a:0 #2"]
    script.begin(A0)
    assert words(script.fail(A0)) == ["insist on a:0 failed"]


def test_an_attempt_that_takes_too_long_has_failed_when_its_time_is_over() -> None:
    script = Script(retries=1, timeout_ms=300)
    script.give(A0)
    assert words(script.wait(1_000)) == [], "it waits for Spark"
    script.begin(A0)
    assert words(script.wait(299)) == []
    assert words(script.wait(1)) == ["stop a:0: stopped after task_timeout of 0.3 s"]
    assert words(script.stopped(A0)) == ["write a:0 pending", "start a:0 #2"]
    script.begin(A0)
    script.wait(300)
    assert written(script.stopped(A0), TaskState.FAILED).failures == 2


def test_a_limit_that_comes_when_its_time_is_over_stops_what_runs() -> None:
    script = Script().running(A0)
    script.now += 1_000
    assert ArmTimer(at_ms=script.now) in script.define(timeout_ms=300)
    assert words(script.wait(0)) == ["stop a:0: stopped after task_timeout of 0.3 s"]


def test_what_is_revoked_as_its_last_attempt_is_over_fails_and_is_not_tried_elsewhere() -> None:
    script = Script(retries=0, timeout_ms=300).running(A0)
    script.wait(300)
    assert words(script.revoke(A0)) == []
    ended = script.stopped(A0)
    assert words(ended) == ["insist on a:0 failed"]
    assert written(ended, TaskState.FAILED).failures == 1
    assert words(script.answer(EndWritten, A0)) == ["finished a:0"]


def test_with_a_retry_left_it_is_tried_by_whoever_has_it_next() -> None:
    script = Script(retries=1, timeout_ms=300).running(A0)
    script.wait(300)
    assert words(script.revoke(A0)) == ["stop a:0: revoked"]
    stopped = script.stopped(A0)
    assert words(stopped) == ["write a:0 stopped", "released a:0"]
    assert written(stopped, TaskState.STOPPED).failures == 1


def test_also_if_the_retry_comes_with_another_definition_while_it_stops() -> None:
    script = Script(retries=0, timeout_ms=300).running(A0)
    script.wait(300)
    script.revoke(A0)
    script.define(retries=1)
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_what_is_revoked_is_released_also_if_it_is_configured_otherwise_while_it_stops() -> None:
    script = Script(retries=0, timeout_ms=300).running(A0)
    script.wait(300)
    assert script.state(A0) is RunState.TIMED_OUT
    script.revoke(A0)
    assert words(script.plan({"i": 7})) == ["stop a:0: its configuration has changed"]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_spark_that_ends_is_waited_for_and_no_failure() -> None:
    script = Script(retries=0).running(A0)
    script.give(A1)
    gone = "exit code -9"
    lost = words(script.feed(SparkLost, task=A0, spark=1, error=gone))
    assert lost == ["write a:0 pending", "task a:0 is to run again: exit code -9"]
    assert words(script.feed(SparkLost, task=A1, spark=1, error=gone)) == [], "it had not begun"
    assert words(script.wait(999)) == []
    assert words(script.wait(1)) == ["start a:0 #2", "start a:1 #1"]


def test_without_spark_nothing_more_is_started_here() -> None:
    script = Script(slots=1)
    script.give(A0, A1)
    assert words(script.feed(SparkAbsent, task=A0, error="no Java")) == []
    assert script.execution.unable == "no Java"
    assert words(script.revoke(A0, A1)) == ["released a:0 a:1"]


# ---- stops


def test_stopping_and_letting_go_are_two_things() -> None:
    script = Script()
    script.give(A0, A1)
    script.begin(A0)
    script.detached(A1)
    assert words(script.revoke(A0, A1)) == ["stop a:0: revoked", "stop watching a:1", "released a:1"]


def test_what_is_no_longer_configured_is_ended_whoever_could_go_on_with_it() -> None:
    script = Script()
    script.give(A0)
    script.detached(A0)
    assert words(script.read(NONE)) == ["stop a:0: it is no longer configured"]


def test_what_is_configured_otherwise_is_left_to_its_next_worker_if_it_is_revoked_meanwhile() -> None:
    """Which ends it before it begins anything; the group waits for no server."""
    script = Script()
    script.give(A0)
    script.detached(A0)
    assert words(script.plan({"i": 7})) == ["stop a:0: its configuration has changed"]
    assert words(script.revoke(A0)) == ["stop watching a:0", "released a:0"]


def test_what_is_given_back_while_it_stops_begins_again() -> None:
    script = Script().running(A0)
    script.revoke(A0)
    assert words(script.give(A0, epoch=2)) == []
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #2"]


def test_a_revoked_task_that_has_ended_is_waited_for_a_while() -> None:
    script = Script().running(A0)
    script.finish(A0)
    assert words(script.revoke(A0)) == []
    assert words(script.wait(LAST_WORDS_MS - 1)) == []
    assert words(script.wait(1)) == [
        "give up a:0",
        "write a:0 stopped",
        "task a:0 has ended, but its last record could not be written: it will run again",
        "released a:0",
    ]
    assert words(script.feed(EndWritten, task=A0, number=1)) == [], "too late"


def test_nobody_waits_for_it_any_more_when_it_is_given_back() -> None:
    script = Script().running(A0)
    script.finish(A0)
    script.revoke(A0)
    script.give(A0)
    assert words(script.wait(LAST_WORDS_MS)) == []
    assert words(script.answer(EndWritten, A0)) == ["finished a:0"]


# ---- last words


def test_an_end_is_said_again_in_each_epoch_until_it_is_stored() -> None:
    script = Script().running(A0)
    script.finish(A0)
    late = script.execution.runs[A0].number
    again = script.advance(5)
    assert words(again) == ["insist on a:0 finished"]
    assert written(again, TaskState.FINISHED).epoch == 5
    assert words(script.feed(EndWritten, task=A0, number=late)) == []
    assert words(script.answer(EndWritten, A0)) == ["finished a:0"]


def test_an_end_that_is_too_large_is_written_without_what_is_too_much_and_not_for_ever() -> None:
    script = Script().running(A0)
    script.finish(A0, "x")
    shorter = written(script.answer(EndRefused, A0, refusal="too large"), TaskState.FAILED)
    assert (shorter.result, shorter.failures) == (None, 1)
    with pytest.raises(ImpossibleEventError, match="even the short record of its end is refused: too large"):
        script.answer(EndRefused, A0, refusal="too large")


# ---- planners


def test_a_plan_is_published_before_its_planner_is_closed() -> None:
    script = Script()
    script.read(JobsSnapshot(jobs={"a": script.definition}))
    script.running(PLANNER)
    assert words(script.finish(PLANNER, [{"i": 1}])) == ["insist on a plan of 1"]
    assert words(script.answer(PlanWritten, PLANNER)) == ["insist on a:planner finished"]
    assert words(script.answer(EndWritten, PLANNER)) == ["finished a:planner"]


@pytest.mark.parametrize(
    ("kind", "said", "stateful"),
    [(BATCH, None, False), (BATCH, True, True), (STREAMING, None, True), (STREAMING, False, False)],
)
def test_a_plan_says_that_its_tasks_are_stateful_as_the_jobs_code_does_or_if_they_are_streams(
    kind: TaskKind, said: bool | None, stateful: bool
) -> None:
    script = Script(kind=kind, replan_interval_ms=5).running(PLANNER)
    done = script.feed(TaskFinished, task=PLANNER, result=[{"i": 7}], stateful=said)
    assert [command.plan.stateful for command in done if isinstance(command, WritePlan)] == [stateful]


def test_a_plan_says_what_its_job_declares_of_its_config() -> None:
    script = Script(replan_interval_ms=5).running(PLANNER)
    done = script.feed(TaskFinished, task=PLANNER, result=[{"i": 7}], config_schema={"type": "object"})
    assert [command.plan.config_schema for command in done if isinstance(command, WritePlan)] == [{"type": "object"}]


def test_a_plan_that_says_something_else_of_its_tasks_only_is_published_too() -> None:
    script = Script(replan_interval_ms=5).running(PLANNER)
    same = script.feed(TaskFinished, task=PLANNER, result=script.configs, stateful=True)
    assert words(same) == ["insist on a plan of 3"]


def test_a_plan_that_is_too_large_fails_its_job() -> None:
    script = Script()
    script.read(JobsSnapshot(jobs={"a": script.definition}))
    script.running(PLANNER)
    script.finish(PLANNER, [{"i": 1}])
    failed = written(script.answer(PlanRefused, PLANNER, refusal="too large"), TaskState.FAILED)
    assert failed.error is not None
    assert failed.error.message == "too large; make fewer tasks, or smaller configs"


def test_who_plans_again_waits_and_goes_by_what_came_meanwhile() -> None:
    script = Script(replan_interval_ms=50).running(PLANNER)
    script.finish(PLANNER, [{"i": 9}])
    script.read(NONE)
    assert script.state(PLANNER) is RunState.PUBLISHING
    assert words(script.answer(PlanWritten, PLANNER)) == [
        "write a:planner pending",
        "write a:planner stopped",
        "released a:planner",
    ]


def test_a_planner_that_would_plan_again_is_released_when_it_ends_as_it_is_revoked() -> None:
    """To wait here for its next time it would have to be this worker's."""
    script = Script(replan_interval_ms=50).running(PLANNER)
    script.revoke(PLANNER)
    assert words(script.finish(PLANNER, [{"i": 9}])) == ["write a:planner stopped", "released a:planner"]


# ---- checkpoints


def test_what_waits_for_a_checkpoint_starts_when_its_claim_is_read_and_no_other_stands() -> None:
    script = Script(slots=3)
    script.plan({"checkpoint_key": "k"})
    theirs = TaskStatus(
        task=TaskId("a", 7),
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=OTHER,
        claim=CheckpointClaim(key="k", process="elsewhere/place/3/4", number=1, lease_ms=60_000),
    )
    script.say(theirs)
    claimed = script.give(A0)
    assert words(claimed) == ["write a:0 pending", "task a:0 waits: a:7 has its checkpoint, on w2"]
    assert words(script.wait(1_000)) == ["write a:0 pending"], "its claim has not been read"
    assert words(script.say(written(claimed, TaskState.PENDING))) == []
    assert words(script.say(replaced(theirs, state=TaskState.STOPPED))) == ["start a:0 #1"]


# ---- a timer


def test_one_timer_is_armed_for_what_is_due_first_and_not_for_each_event() -> None:
    script = Script(slots=3, timeout_ms=500, linger_ms=9_000)
    script.give(A0, A1)
    assert ArmTimer(at_ms=script.now + 500) in script.begin(A0)
    script.now += 100
    assert not any(isinstance(command, ArmTimer) for command in script.begin(A1)), "that is due later"
    assert ArmTimer(at_ms=script.now + 500) in script.wait(400)


def test_it_is_done_when_there_was_nothing_to_do_for_long_enough() -> None:
    script = Script(linger_ms=100).running(A0)
    script.wait(1_000)
    assert not script.execution.done(script.now)
    script.finish(A0)
    ended = script.answer(EndWritten, A0)
    assert not script.execution.done(script.now + 99)
    assert script.execution.done(script.now + 100)
    assert ArmTimer(at_ms=script.now + 100) in ended or script.execution.armed_at is not None


def test_it_has_nothing_to_do_from_when_its_worker_is_in_the_group() -> None:
    """How long that took is no time in which nothing was wanted of it."""
    script = Script(linger_ms=100)
    script.wait(1_000)
    script.feed(GroupJoined)
    assert not script.execution.done(script.now + 99)
    script.wait(100)
    assert script.execution.done(script.now)


def test_a_stream_says_that_it_is_one() -> None:
    script = Script().running(A0)
    began = script.feed(QueryStarted, task=A0, query_id="q")
    assert written(began, TaskState.RUNNING).kind.value == "streaming"


def test_what_is_handed_to_a_runner_says_which_attempt_it_is() -> None:
    (start,) = (command for command in Script().give(A0) if isinstance(command, StartAttempt))
    assert (start.run.task, start.run.attempt, start.run.epoch) == (A0, 1, 1)
