"""Tasks that take several of a worker's slots: when they start, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from execution_script import A0, A1, A2, Script, words

from airflow_provider.spark.job import JobContext, SparkJob, spark_job
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.state.records import JobDefinition, JobError, PlanRecord, TaskKind
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.tasks import events
from airflow_provider.worker.tasks.runs.run_state import RunState

JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=9)
CONTEXT = JobContext(name="a", config={}, max_tasks=9)


def script(*wants: int, slots: int, **definition: Any) -> Script:
    made = Script(slots=slots, **definition)
    made.plan(*({"i": index, "slots": each} for index, each in enumerate(wants)))
    return made


def started(done: list[Any]) -> list[str]:
    return [said.split()[1] for said in words(done) if said.startswith("start ")]


def test_a_task_takes_as_many_slots_as_it_wants_until_it_has_ended() -> None:
    three = script(2, 1, 1, slots=3)
    assert started(three.give(A0, A1, A2)) == ["a:0", "a:1"]
    three.begin(A0)
    assert started(three.finish(A0)) == ["a:2"]


def test_a_later_job_does_not_take_the_slots_for_which_a_large_task_waits() -> None:
    two = script(1, 2, 1, slots=2)
    assert started(two.give(A0, A1, A2)) == ["a:0"], "one slot stays free, although a:2 would do with it"
    two.begin(A0)
    assert started(two.finish(A0)) == ["a:1"]
    two.begin(A1)
    assert started(two.finish(A1)) == ["a:2"]


def test_a_task_that_waits_while_too_few_slots_are_free_is_recorded_as_waiting() -> None:
    """Once. Otherwise a leader assumes that it is about to start, and does not move it to a worker that has room."""
    two = script(1, 2, 2, slots=2)
    assert words(two.give(A0, A1, A2)) == ["start a:0 #1", "write a:1 pending"]
    assert words(two.begin(A0)) == ["insist on where a:0 begins", "let a:0 begin"]
    assert words(two.wait(1_000)) == []


def test_a_task_that_wants_more_slots_than_there_are_takes_all_and_the_log_says_so() -> None:
    two = script(4, 1, slots=2)
    done = two.give(A0, A1)
    assert started(done) == ["a:0"]
    assert "task a:0 wants 4 slots, and gets 2 of 2" in words(done)


def test_nobody_waits_for_slots_that_streams_hold() -> None:
    """A task would wait for them for ever, and so would those after it."""
    three = script(1, 3, 3, slots=3, kind=TaskKind.STREAMING)
    assert started(three.give(A0, A1, A2)) == ["a:0", "a:1"]
    assert three.execution.runs[A1].slots == 2
    assert three.state(A2) is RunState.WAITING, "there is none left"


def test_a_task_takes_another_number_of_slots_from_its_next_start_on() -> None:
    three = script(2, 1, slots=3).running(A0)
    three.plan({"i": 0, "slots": 3}, {"i": 1, "slots": 1})
    assert three.execution.runs.busy == 2, "it stops first"
    assert started(three.stopped(A0)) == ["a:0"]
    assert three.execution.runs.busy == 3


def test_a_worker_that_drains_starts_no_large_task_either() -> None:
    two = script(9, slots=2)
    two.feed(events.Drained)
    assert started(two.give(A0)) == []


@pytest.mark.parametrize("slots", [0, -1, 1.5, "2", None, True, 2**40])
def test_an_invalid_number_of_slots_is_refused_when_the_job_is_planned(slots: Any) -> None:
    with pytest.raises(JobError, match=r"plan\(\)\[1\]\.slots: .* must be a whole number, at least 1"):
        PlanRecord.of(JOB, [{}, {"slots": slots}], planned_by=WorkerId("w1"), at_ms=0)

    class Job(SparkJob):
        pass

    Job.slots = slots
    with pytest.raises(PlanError, match="slots must be a whole number, at least 1, not "):
        make_plan(Job(), CONTEXT)


def test_a_plan_in_which_slots_means_something_else_is_still_read() -> None:
    """One that an earlier release has written."""
    plan = PlanRecord.of(JOB, [{"i": 0}, {"slots": 2}], planned_by=WorkerId("w1"), at_ms=0)
    told = plan.to_json() | {"configs": [{"slots": "09:00"}, {"slots": 2}]}
    assert PlanRecord.from_json(told).large == {1: 2}


def test_tasks_that_name_no_slots_take_those_of_their_job() -> None:
    @spark_job(plan=[{"table": "small", "slots": 1}, {"table": "large"}], slots=4)
    def copy(_spark: Any, _task: Any) -> None: ...

    assert make_plan(copy, CONTEXT) == [{"table": "small", "slots": 1}, {"table": "large", "slots": 4}]
