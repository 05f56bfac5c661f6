"""What people ask of a job that runs, as the executor's machine does it: pause, resume, stop, restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution_script import A0, A1, A2, ME, PLANNER, Script, words, written

from airflow_provider.state.records import CHECKPOINT_KEY, Halt, HaltRecord, PlanRecord, TaskState
from airflow_provider.state.views.placed import Placed, Restart
from airflow_provider.values.model import ConfigOffset, TaskId
from airflow_provider.worker.tasks.commands import Command
from airflow_provider.worker.tasks.events import EndWritten, PlanWritten
from airflow_provider.worker.tasks.runs.run_state import RunState

PAUSED, STOPPED = Halt.PAUSED, Halt.STOPPED


class Steered(Script):
    """A script whose jobs topic has offsets, as each word in it is put there."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.read(replace(self.jobs, offset=ConfigOffset(10)))

    def ask(self, **changes: Any) -> list[Command]:
        return self.read(replace(self.jobs, offset=ConfigOffset(self.jobs.offset + 1), **changes))

    def halt(self, halt: Halt) -> list[Command]:
        record = HaltRecord(job="a", halt=halt, by="me", at_ms=1)
        return self.ask(halts={"a": Placed(record, self.jobs.offset)})

    def resume(self) -> list[Command]:
        return self.ask(halts={})

    def restart(self, *tasks: TaskId) -> list[Command]:
        asked = Restart(by="me", offset=self.jobs.offset)
        if not tasks:
            return self.ask(restarts={"a": asked})
        return self.ask(task_restarts={**self.jobs.task_restarts, **dict.fromkeys(tasks, asked)})


def test_what_runs_starts_anew_where_it_is_and_once_however_often_that_is_read() -> None:
    script = Steered()
    script.running(A0, A1)
    assert words(script.restart()) == [f"stop {task}: a restart was requested by me" for task in (A0, A1)]
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #2"]
    assert words(script.stopped(A1)) == ["write a:1 stopped", "start a:1 #2"]
    assert words(script.ask()) == [], "the same word read again"
    script.begin(A0)
    assert words(script.restart()) == [f"stop {task}: a restart was requested by me" for task in (A0, A1)], (
        "another one"
    )


def test_nothing_is_released_so_nobody_else_hears_of_it() -> None:
    script = Steered()
    script.running(A0)
    done = [*script.restart(), *script.stopped(A0), *script.begin(A0)]
    assert not [said for said in words(done) if "released" in said or "finished" in said]


def test_one_task_starts_anew_alone() -> None:
    script = Steered()
    script.running(A0, A1)
    assert words(script.restart(A1)) == ["stop a:1: a restart was requested by me"]
    assert script.state(A0) is RunState.STARTED


def test_two_words_read_together_are_both_followed() -> None:
    script = Steered()
    script.running(A0, A1)
    asked = {A0: Restart(by="me", offset=10), A1: Restart(by="you", offset=11)}
    assert words(script.ask(task_restarts=asked)) == [
        "stop a:0: a restart was requested by me",
        "stop a:1: a restart was requested by you",
    ]


def test_who_begins_with_the_word_read_has_nothing_to_do_about_it() -> None:
    """As a worker that is given the task later, or is started again."""
    script = Steered()
    script.restart()
    assert words(script.give(A0)) == ["start a:0 #1"]
    assert words(script.ask()) == []


def test_what_starts_anew_has_all_its_retries() -> None:
    script = Steered(retries=1)
    script.running(A0)
    script.fail(A0)
    script.begin(A0)
    script.restart()
    assert written(script.stopped(A0), TaskState.STOPPED).failures == 0
    script.begin(A0)
    assert words(script.fail(A0)) == ["write a:0 pending", "start a:0 #4"], "it may fail once again"


def test_what_waits_for_its_next_attempt_waits_no_longer() -> None:
    script = Steered(retries=1, retry_delay_ms=60_000)
    script.running(A0)
    script.fail(A0)
    assert words(script.restart()) == ["start a:0 #2"]
    assert words(script.wait(60_000)) == []


def test_a_planner_that_waits_for_its_next_time_plans_at_once() -> None:
    script = Steered(replan_interval_ms=60_000)
    script.running(PLANNER)
    script.finish(PLANNER, script.configs)
    assert script.state(PLANNER) is RunState.WAITING
    assert words(script.restart(PLANNER)) == ["start a:planner #2"]


def test_what_is_revoked_as_it_starts_anew_goes() -> None:
    script = Steered()
    script.running(A0)
    script.restart()
    script.revoke(A0)
    assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]


def test_what_is_revoked_already_is_not_told_twice_why_it_stops() -> None:
    script = Steered()
    script.running(A0)
    script.revoke(A0)
    assert words(script.restart()) == []


def test_a_pause_stops_what_runs_and_keeps_all_of_it_here() -> None:
    script = Steered(slots=1)
    script.running(A0)
    script.give(A1)
    assert words(script.halt(PAUSED)) == ["stop a:0: its job is paused"]
    assert words(script.stopped(A0)) == ["write a:0 stopped"]
    assert (script.state(A0), script.state(A1)) == (RunState.PAUSED, RunState.PAUSED)
    assert script.execution.runs.active == frozenset()
    assert words(script.give(A2)) == [], "what is given meanwhile waits, too"
    assert words(script.resume()) == ["start a:0 #2"]
    assert words(script.begin(A0)) == ["insist on where a:0 begins", "let a:0 begin"]


def test_a_pause_that_ends_as_the_task_stops_has_it_start_again() -> None:
    script = Steered()
    script.running(A0)
    script.halt(PAUSED)
    script.resume()
    assert words(script.stopped(A0)) == ["write a:0 stopped", "start a:0 #2"]


def test_who_has_nothing_but_what_is_paused_needs_no_process() -> None:
    script = Steered(linger_ms=1_000)
    script.running(A0)
    script.halt(PAUSED)
    script.stopped(A0)
    assert not script.execution.done(script.now)
    script.wait(1_000)
    assert script.execution.done(script.now)
    script.resume()
    assert not script.execution.done(script.now)


def test_what_is_paused_can_go_elsewhere() -> None:
    script = Steered()
    script.running(A0)
    script.halt(PAUSED)
    script.stopped(A0)
    assert words(script.revoke(A0)) == ["released a:0"]


def test_what_fails_as_its_job_is_paused_is_not_tried_before_the_end_of_that() -> None:
    script = Steered(retries=3)
    script.running(A0)
    script.halt(PAUSED)
    script.fail(A0)
    assert script.state(A0) is RunState.PAUSED
    assert words(script.wait(60_000)) == []


def test_what_is_paused_holds_no_checkpoint() -> None:
    script = Steered(tasks=0)
    script.read(replace(script.jobs, plans=_keyed(script)))
    script.give(A0)
    assert words(script.halt(PAUSED)) == ["write a:0 stopped"], "its claim does not stand any more"
    (claimed,) = script.resume()[:1]
    assert words([claimed]) == ["write a:0 pending"]


def _keyed(script: Steered) -> dict[str, Any]:
    script.configs = [{CHECKPOINT_KEY: "k"}]
    plan = script.jobs.plans["a"]
    return {"a": replace(plan, configs=tuple(script.configs))}


@pytest.mark.parametrize("ended", [False, True])
def test_a_stop_gives_up_what_the_job_has(ended: bool) -> None:
    script = Steered(slots=1)
    script.running(A0)
    script.give(A1)
    assert words(script.halt(STOPPED)) == ["stop a:0: it is no longer configured", "write a:1 stopped", "released a:1"]
    if ended:
        script.finish(A0)
        assert words(script.answer(EndWritten, A0)) == ["finished a:0"], "what comes to its end has come to its end"
    else:
        assert words(script.stopped(A0)) == ["write a:0 stopped", "released a:0"]
    assert words(script.give(A2)) == ["released a:2"], "what is given by a leader that has not read so far goes back"


def test_an_altered_job_goes_on_by_its_plan_until_there_is_another_and_only_what_changes_starts_anew() -> None:
    script = Steered()
    script.running(A0, A1)
    known = script.jobs.jobs["a"]
    altered = replace(known, config={"new": 1}, basis=known.fingerprint)
    assert words(script.ask(jobs={"a": altered})) == [], "there is no other plan yet"
    assert words(script.give(PLANNER)) == ["start a:planner #1"]
    script.begin(PLANNER)
    (insist,) = words(script.finish(PLANNER, [{"i": 0}, {"i": "other"}]))
    assert insist == "insist on a plan of 2"
    plan = PlanRecord.of(altered, [{"i": 0}, {"i": "other"}], planned_by=ME, at_ms=0)
    assert words(script.ask(plans={"a": plan})) == ["stop a:1: its configuration has changed"]
    script.answer(PlanWritten, PLANNER)
    assert script.state(A0) is RunState.STARTED


def test_a_plan_that_stays_the_same_is_written_for_the_altered_definition() -> None:
    """Else its planner would never have done its work."""
    script = Steered()
    known = script.jobs.jobs["a"]
    script.ask(jobs={"a": replace(known, config={"new": 1}, basis=known.fingerprint)})
    script.running(PLANNER)
    assert words(script.finish(PLANNER, script.configs)) == ["insist on a plan of 3"]


def test_a_planner_that_is_to_start_anew_as_its_plan_is_written_plans_once_more_and_not_twice() -> None:
    script = Steered(replan_interval_ms=60_000)
    script.running(PLANNER)
    script.finish(PLANNER, [{"i": "other"}])
    assert words(script.restart(PLANNER)) == []
    done = words(script.answer(PlanWritten, PLANNER))
    assert [said for said in done if said.startswith("start")] == ["start a:planner #2"]
    script.begin(PLANNER)
    assert words(script.ask()) == []
