"""What the executor's machine does with learner tasks, event by event: the exact commands that come of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, A1, A2, ME, OTHER, PLANNER, Script, words

from airflow_provider.spark import runner
from airflow_provider.spark.runner import (
    NoSparkToWarmUp,
    SparkLost,
    TaskStopped,
    WarmUpEnd,
    WarmUpEvent,
    WarmUpFailed,
    WarmUpLost,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.state.records import (
    Lesson,
    TaskState,
    TaskStatus,
    WarmUpDeaths,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.worker.tasks.events import Closed, Drained, WarmUpDue
from airflow_provider.worker.tasks.learning import TRANSITIONS
from airflow_provider.worker.tasks.runs.learners import LearnerState
from airflow_provider.worker.tasks.state import ImpossibleEventError


def test_the_table_has_a_row_for_each_state_and_one_for_what_is_not_learned() -> None:
    assert set(TRANSITIONS) == {None, *LearnerState}


def test_each_row_knows_all_that_a_runner_tells_of_a_warm_up() -> None:
    kinds = {kind for kind in vars(runner).values() if isinstance(kind, type) and issubclass(kind, WarmUpEvent)}
    for state, row in TRANSITIONS.items():
        assert kinds - row.keys() == {WarmUpEvent, WarmUpEnd}, state


def test_nothing_stays_a_learner_for_ever() -> None:
    for state in LearnerState:
        assert None in {after for rule in TRANSITIONS[state].values() for after in rule.leads_to}, state


def test_an_event_that_cannot_happen_is_refused_with_the_task_and_its_state() -> None:
    script = Script().ready(A0)
    with pytest.raises(ImpossibleEventError, match="WarmUpDue of task a:0, which is ready"):
        script.feed(WarmUpDue, task=A0)


# ---- from the first to the last


def test_a_learned_task_is_warmed_up_and_moves_when_it_is_ready() -> None:
    script = Script()
    assert words(script.learn(A0)) == ["learns a:0", "warm up a:0 #1"]
    script.feed(WarmUpProgressed, task=A0, progress=0.5)
    assert script.execution.learners.progress == {A0: 0.5}
    script.now += 20_300
    assert words(script.feed(WarmUpReady, task=A0)) == ["a:0 is ready after 20.3 s"]
    assert script.execution.learners.progress == {A0: 1.0}
    assert words(script.give(A0)) == ["start a:0 #1", "starts a:0, fully warmed up"]
    assert script.learner(A0) is None
    assert script.execution.learners.progress == {}


def test_the_log_says_who_runs_what_is_learned() -> None:
    script = Script()
    script.say(TaskStatus(task=A0, state=TaskState.RUNNING, epoch=Epoch(1), worker=OTHER))
    assert words(script.learn(A0)) == ["learns a:0, which w2 runs", "warm up a:0 #1"]


def test_its_attempt_has_the_number_after_the_one_that_runs_elsewhere() -> None:
    script = Script()
    fingerprint = script.jobs.plans["a"].fingerprints[0]
    running = TaskStatus(
        task=A0,
        state=TaskState.RUNNING,
        epoch=Epoch(1),
        worker=OTHER,
        run_key="r",
        fingerprint=fingerprint,
        attempt=3,
        started_at_ms=1,
    )
    script.say(running)
    assert words(script.learn(A0))[-1] == "warm up a:0 #4"


def test_what_is_learned_takes_no_slot_and_is_nothing_that_is_run_here() -> None:
    script = Script(slots=1).running(A1)
    assert words(script.learn(A0, A2))[1::2] == ["warm up a:0 #1", "warm up a:2 #1"]
    assert script.execution.runs.active == {A1}


def test_a_process_is_not_done_as_long_as_it_learns_and_a_while_after_that() -> None:
    script = Script(linger_ms=500).ready(A0)
    script.wait(10_000)
    assert not script.execution.done(script.now)
    script.stop_learning(A0)
    assert not script.execution.done(script.now + 499)
    assert script.execution.done(script.now + 500)


def test_a_planner_is_not_learned() -> None:
    assert words(Script().learn(PLANNER)) == []


def test_only_the_end_of_a_warm_up_makes_it_whole_and_progress_never_goes_back() -> None:
    script = Script()
    script.learn(A0)
    for said, known in ((0.2, 0.2), (0.1, 0.2), (1.0, 0.99)):
        script.feed(WarmUpProgressed, task=A0, progress=said)
        assert script.execution.learners.progress == {A0: known}


# ---- it is to end


@pytest.mark.parametrize("ready", [False, True])
def test_what_is_not_to_be_learned_any_more_is_let_go_of_immediately(ready: bool) -> None:
    script = Script()
    script.ready(A0) if ready else script.learn(A0)
    assert words(script.stop_learning(A0)) == ["stop warming up a:0", "no longer learns a:0"]
    assert words(script.stop_learning(A0)) == []
    assert words(script.feed(WarmUpReady, task=A0)) == [], "that comes late"


def test_a_task_that_was_held_back_is_released_though_it_was_never_taken() -> None:
    script = Script().ready(A0)
    assert words(script.revoke(A0)) == ["stop warming up a:0", "released a:0"]


def test_what_waits_for_its_turn_is_let_go_of_when_it_is_revoked() -> None:
    script = Script(slots=1).running(A1).ready(A0)
    assert words(script.give(A0)) == []
    assert words(script.revoke(A0)) == ["stop warming up a:0", "released a:0"]


def test_what_has_ended_elsewhere_is_let_go_of_when_it_is_its_turn() -> None:
    script = Script(slots=1).running(A1).ready(A0)
    script.give(A0)
    fingerprint = script.jobs.plans["a"].fingerprints[0]
    script.say(
        TaskStatus(
            task=A0, state=TaskState.FINISHED, epoch=Epoch(1), worker=OTHER, run_key="r", fingerprint=fingerprint
        )
    )
    assert words(script.finish(A1)) == ["insist on a:1 finished", "stop warming up a:0", "released a:0"]


def test_who_ends_lets_go_of_all_and_learns_nothing_more() -> None:
    script = Script().ready(A0)
    assert words(script.feed(Closed)) == ["stop warming up a:0"]
    assert words(script.learn(A1)) == []


def test_who_starts_no_task_any_more_warms_up_nothing_more() -> None:
    script = Script()
    script.feed(Drained)
    assert words(script.learn(A0)) == []


# ---- it moves


def test_while_a_taken_task_waits_for_a_slot_its_warm_up_goes_on() -> None:
    script = Script(slots=1).running(A1)
    script.learn(A0)
    assert words(script.give(A0)) == []
    assert script.execution.learners.progress == {}, "nobody waits for it any more"
    assert words(script.feed(WarmUpReady, task=A0)) == ["a:0 is ready after 0.0 s"]
    assert words(script.finish(A1)) == ["insist on a:1 finished", "start a:0 #1", "starts a:0, fully warmed up"]


def test_a_half_warm_task_starts_when_it_is_its_turn() -> None:
    script = Script()
    script.learn(A0)
    script.feed(WarmUpProgressed, task=A0, progress=0.4)
    assert words(script.give(A0)) == ["start a:0 #1", "starts a:0, warmed up to 40%"]


def test_what_was_made_ready_is_its_attempts_even_if_the_task_is_not_to_be_learned_any_more() -> None:
    script = Script(slots=1).running(A1).ready(A0)
    script.give(A0)
    assert words(script.stop_learning(A0)) == []
    assert words(script.finish(A1))[-1] == "starts a:0, fully warmed up"


def test_a_second_attempt_begins_cold() -> None:
    script = Script(retries=1).ready(A0)
    script.give(A0)
    script.begin(A0)
    assert words(script.fail(A0)) == ["write a:0 pending", "start a:0 #2"]


def test_what_runs_here_is_not_learned_and_what_is_being_given_up_may_be() -> None:
    script = Script().running(A0)
    assert words(script.learn(A0)) == []
    script.revoke(A0)
    assert words(script.learn(A0)) == ["learns a:0", "warm up a:0 #1"]
    script.give(A0)
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #2", "starts a:0, warmed up to 0%"]


# ---- what is to run changes


def test_what_is_configured_otherwise_is_learned_anew() -> None:
    script = Script().ready(A0, A1)
    assert words(script.plan({"i": 9}, {"i": 1}, {"i": 2})) == ["stop warming up a:0", "learns a:0", "warm up a:0 #1"]
    assert script.execution.learners.progress == {A0: 0.0, A1: 1.0}


def test_what_is_not_configured_is_learned_when_it_is() -> None:
    script = Script().ready(A0)
    before = script.jobs
    assert words(script.read(JobsSnapshot())) == ["stop warming up a:0"]
    assert script.execution.learners.progress == {A0: 0.0}
    assert words(script.read(before)) == ["learns a:0", "warm up a:0 #1"]


def test_another_definition_of_the_same_work_changes_nothing() -> None:
    script = Script().ready(A0)
    assert words(script.define(retries=7)) == []
    assert script.execution.learners.progress == {A0: 1.0}


def test_what_waits_and_is_configured_otherwise_begins_cold() -> None:
    script = Script(slots=1).running(A1).ready(A0)
    script.give(A0)
    assert words(script.plan({"i": 9}, {"i": 1}, {"i": 2})) == ["stop warming up a:0"]
    assert words(script.finish(A1)) == ["insist on a:1 finished", "start a:0 #1"]


# ---- failures


def test_a_warm_up_that_fails_is_tried_again_after_a_while_that_grows() -> None:
    script = Script()
    script.learn(A0)
    said = "the warm-up of a:0 failed; it is tried again in %g s: boom"
    for wait_s in (5, 10):
        assert words(script.feed(WarmUpFailed, task=A0, error="boom")) == [said % wait_s]
        assert script.execution.learners.progress == {A0: 0.0}
        assert words(script.wait(wait_s * 1_000 - 1)) == []
        assert words(script.wait(1)) == ["warm up a:0 #1"]
    script.feed(WarmUpReady, task=A0)
    assert script.execution.learners.progress == {A0: 1.0}
    assert not script.execution.learners.failed


def failed_for_good(**definition: Any) -> Script:
    """The warm-up of a:0 has failed as often as it may."""
    script = Script(**definition)
    script.learn(A0)
    for wait_s in (5, 10):
        script.feed(WarmUpFailed, task=A0, error="boom")
        script.wait(wait_s * 1_000)
    said = "the warm-up of a:0 failed; it is not tried again here: boom"
    assert words(script.feed(WarmUpFailed, task=A0, error="boom")) == [said]
    assert script.learner(A0) is LearnerState.FAILED
    return script


def test_a_warm_up_that_has_failed_three_times_is_not_tried_again_and_the_worker_knows_why() -> None:
    script = failed_for_good()
    assert words(script.wait(3_600_000)) == []
    assert script.execution.learners.failed == {A0: "boom"}
    assert script.execution.learners.progress == {A0: 0.0}
    assert words(script.stop_learning(A0)) == ["no longer learns a:0"]
    assert script.execution.learners.failed == {A0: "boom"}, "who asks why it stays where it is, is told"
    assert words(script.learn(A0)) == ["learns a:0", "warm up a:0 #1"]
    assert not script.execution.learners.failed


def test_what_has_failed_for_good_begins_cold_if_it_moves_here_all_the_same() -> None:
    script = failed_for_good()
    assert words(script.give(A0)) == ["start a:0 #1"]
    assert not script.execution.learners.failed


def test_what_has_failed_for_good_is_learned_anew_when_it_is_configured_otherwise() -> None:
    script = failed_for_good()
    assert words(script.plan({"i": 9}, {"i": 1}, {"i": 2})) == ["learns a:0", "warm up a:0 #1"]
    assert not script.execution.learners.failed
    script = failed_for_good()
    script.stop_learning(A0)
    script.read(JobsSnapshot())
    assert not script.execution.learners.failed, "nobody asks any more"


def test_a_task_whose_warm_up_has_failed_starts_without() -> None:
    script = Script(slots=1).running(A1)
    script.learn(A0, A2)
    script.feed(WarmUpFailed, task=A0, error="boom")
    assert words(script.give(A0, A2)) == []
    done = script.feed(WarmUpFailed, task=A2, error="boom")
    assert words(done) == ["the warm-up of a:2 failed; the task starts without it: boom"]
    assert words(script.finish(A1)) == ["insist on a:1 finished", "start a:0 #1"]


def test_in_a_new_spark_a_task_is_warmed_up_again_and_the_second_time_after_a_while() -> None:
    script = Script().ready(A0)
    assert words(script.feed(WarmUpLost, task=A0, spark=1)) == []
    assert words(script.wait(999)) == []
    assert words(script.wait(1)) == ["warm up a:0 #1"]
    script.feed(WarmUpLost, task=A0, spark=2)
    assert words(script.wait(4_999)) == []
    assert words(script.wait(1)) == ["warm up a:0 #1"]


def test_the_spark_that_has_ended_holds_back_tasks_too() -> None:
    script = Script().ready(A0)
    script.feed(WarmUpLost, task=A0, spark=1)
    assert words(script.give(A1)) == []
    assert words(script.wait(1_000)) == ["start a:1 #1", "warm up a:0 #1"]


def test_nothing_is_warmed_up_while_a_task_is_on_trial() -> None:
    script = Script().running(A1)
    script.feed(SparkLost, task=A1, spark=1, error="boom")
    script.wait(1_000)
    script.begin(A1)
    script.feed(SparkLost, task=A1, spark=2, error="boom")
    script.wait(2_000)
    script.begin(A1)
    assert words(script.learn(A0)) == []
    assert words(script.wait(59_000)) == []
    assert words(script.wait(1_000)) == ["write a:1 running", "learns a:0", "warm up a:0 #1"]


def test_without_spark_the_worker_can_do_nothing() -> None:
    script = Script()
    script.learn(A0)
    assert words(script.feed(NoSparkToWarmUp, task=A0, error="no Java")) == []
    assert script.execution.unable == "no Java"
    assert words(script.wait(600_000)) == []


def test_a_task_that_stops_while_it_is_learned_again_is_no_concern_of_its_warm_up() -> None:
    script = Script().running(A0)
    script.revoke(A0)
    script.learn(A0)
    assert words(script.feed(TaskStopped, task=A0, reason="")) == ["write a:0 stopped", "released a:0"]
    assert script.learner(A0) is LearnerState.WARMING


# ---- a process that ended under it


def killed(times: int = 0, *, ready: bool = False, **changes: Any) -> WorkerStatus:
    """The last word of a process that was killed while it learned a:0."""
    said = WorkerStatus(
        worker=ME,
        state=WorkerPhase.STABLE,
        epoch=Epoch(1),
        slots=2,
        process="host/place/7/8",
        learning=(Lesson(A0, 1.0 if ready else 0.3, ready),),
        warm_up_deaths=(WarmUpDeaths(A0, times),) if times else (),
    )
    return replace(said, **changes)


def after(last: WorkerStatus) -> Script:
    return Script(status=StatusSnapshot(workers={ME: last}))


def test_a_warm_up_under_which_the_process_ended_is_tried_once_more() -> None:
    script = after(killed())
    assert script.execution.learners.deaths == {A0: 1}, "the next process knows it, too"
    assert words(script.learn(A0)) == [
        "the warm-up of a:0 failed; it is tried once more: the worker's process ended during the warm-up",
        "learns a:0",
        "warm up a:0 #1",
    ]
    script.feed(WarmUpReady, task=A0)
    assert script.execution.learners.deaths == {}


def test_a_warm_up_under_which_the_process_ended_twice_gives_up_its_place() -> None:
    script = after(killed(1))
    said = words(script.learn(A0, A1))
    assert (
        "the warm-up of a:0 failed; it is not tried again here: the worker's process ended during the warm-up" in said
    )
    assert "warm up a:0 #1" not in said
    assert "warm up a:1 #1" in said
    assert script.learner(A0) is LearnerState.FAILED
    assert script.execution.learners.failed == {A0: "the worker's process ended during the warm-up"}
    script.stop_learning(A0)
    assert script.execution.learners.deaths == {}
    assert "warm up a:0 #1" in words(script.learn(A0)), "the leader has it tried again"


@pytest.mark.parametrize(
    ("last", "deaths"),
    [
        (killed(ready=True), {}),
        (killed(1, state=WorkerPhase.LEFT), {}),
        (killed(1, state=WorkerPhase.DEFERRED), {A0: 1}),
        (killed(1, process="host/place/1/2"), {A0: 1}),
        (killed(1, learning=()), {A0: 1}),
        (killed(2), {A0: 2}),
    ],
    ids=["it was ready", "it left", "it runs nothing", "it is this process", "it had not begun", "it is enough"],
)
def test_only_a_process_that_ended_under_a_warm_up_counts(last: WorkerStatus, deaths: dict[TaskId, int]) -> None:
    assert after(last).execution.learners.deaths == deaths


def test_what_has_become_of_a_task_here_ends_the_count() -> None:
    script = after(killed())
    script.give(A0)
    assert script.execution.learners.deaths == {}
