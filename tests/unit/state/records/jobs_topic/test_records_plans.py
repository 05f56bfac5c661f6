"""Plans: which are taken, and what they are of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.state.records import (
    JobDefinition,
    JobError,
    PlanRecord,
    decode,
    encode,
)
from airflow_provider.state.records.jobs_topic.plans import LARGEST_SCHEMA, MOST_TASKS
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.model import (
    WorkerId,
)

W1 = WorkerId("w1")
JOB = JobDefinition(
    name="flights",
    entry_point="jobs.flights:Clean",
    config={"months": [1, 2], "where": None},
    max_tasks=12,
    run_key="manual__2013",
    retries=2,
    retry_delay_ms=500,
    submitted_at_ms=1_000,
    submitted_by="dag flights",
)


def _job(**changes: Any) -> JobDefinition:
    return JobDefinition.from_json({**JOB.to_json(), **changes})


def test_a_plan_with_too_many_tasks_names_the_job_and_the_way_out() -> None:
    with pytest.raises(
        JobError, match=r"job 'flights', plan: returned 13 tasks, but max_tasks is 12: .*higher max_tasks"
    ):
        PlanRecord.of(JOB, [{}] * 13, planned_by=W1, at_ms=0)


def test_a_job_for_which_nobody_has_set_it_plans_as_many_tasks_as_it_needs() -> None:
    free = replace(JOB, max_tasks=None)
    assert JobDefinition.from_json(decode(encode(free.to_json()))) == free
    assert PlanRecord.of(free, [{}] * 13, planned_by=W1, at_ms=0).is_of(free)
    assert free.parts == 1, "what can be divided anyhow stays one task"


def test_its_streams_go_on_when_an_earlier_release_has_submitted_it_with_one() -> None:
    """That was the default then: each such job would otherwise be planned again after the upgrade."""
    free, one = replace(JOB, max_tasks=None), replace(JOB, max_tasks=1)
    assert PlanRecord.of(one, [{}], planned_by=W1, at_ms=0).is_of(free)
    assert not free.same_as(one), "submitting it removes the limit"
    assert not PlanRecord.of(free, [{}] * 2, planned_by=W1, at_ms=0).is_of(one)


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_plan_has_a_bounded_number_of_tasks_whatever_its_job_says() -> None:
    job = JobDefinition(name="flights", entry_point="m:f", max_tasks=10**9)
    most = PlanRecord.of(job, [{}] * MOST_TASKS, planned_by=W1, at_ms=0)
    assert PlanRecord.from_json(decode(encode(most.to_json()))) == most
    with pytest.raises(JobError, match=r"has 100001 tasks, but a plan has at most 100000: .*submit several jobs"):
        PlanRecord.of(job, [{}] * (MOST_TASKS + 1), planned_by=W1, at_ms=0)
    with pytest.raises(ValueError, match="has 100001 tasks"):
        PlanRecord.from_json({**most.to_json(), "configs": [{}] * (MOST_TASKS + 1)})


def test_a_plan_keeps_equal_configs_once() -> None:
    """Thousands of them are a few bytes when compressed, and would be many megabytes here."""
    read = PlanRecord.from_json(decode(encode(PlanRecord.of(JOB, [{"m": 1}] * 9, planned_by=W1, at_ms=0).to_json())))
    assert read.configs == ({"m": 1},) * 9
    assert (len({id(config) for config in read.configs}), len({id(each) for each in read.fingerprints})) == (1, 1)


def test_a_plan_of_more_tasks_than_the_job_may_have_is_not_of_it() -> None:
    plan = PlanRecord.of(JOB, [{}] * 12, planned_by=W1, at_ms=0)
    assert plan.is_of(JOB)
    assert not replace(plan, configs=({},) * 13).is_of(JOB)


@pytest.mark.parametrize("configs", [None, "ab", {"a": 1}, 5])
def test_a_plan_that_is_no_list_is_refused(configs: Any) -> None:
    with pytest.raises(JobError, match="must return a list of objects"):
        PlanRecord.of(JOB, configs, planned_by=W1, at_ms=0)


def test_a_plan_with_a_config_that_is_no_object_names_which() -> None:
    configs: list[Any] = [{}, 5]
    with pytest.raises(JobError, match=r"plan\(\)\[1\]: must be a JSON object, not int"):
        PlanRecord.of(JOB, configs, planned_by=W1, at_ms=0)


def test_an_empty_plan_is_allowed() -> None:
    assert PlanRecord.of(JOB, [], planned_by=W1, at_ms=0).configs == ()


def test_a_plan_is_of_one_definition_in_one_run() -> None:
    plan = PlanRecord.of(JOB, [{}], planned_by=W1, at_ms=0)
    assert plan.is_of(_job(retries=9))
    assert not plan.is_of(_job(run_key="next"))
    assert not plan.is_of(_job(config={}))


def test_only_tasks_with_another_config_get_another_fingerprint_in_a_new_plan() -> None:
    old = PlanRecord.of(JOB, [{"m": 1}, {"m": 2}], planned_by=W1, at_ms=0)
    new = PlanRecord.of(JOB, [{"m": 1}, {"m": 3}], planned_by=WorkerId("w2"), at_ms=9)
    assert [a == b for a, b in zip(old.fingerprints, new.fingerprints, strict=True)] == [True, False]


def test_a_plan_of_an_earlier_release_says_that_nothing_is_to_be_warmed_up() -> None:
    plan = PlanRecord.of(JOB, [{}], planned_by=W1, at_ms=0, stateful=True)
    data = plan.to_json()
    assert PlanRecord.from_json(data) == plan
    del data["stateful"]
    assert PlanRecord.from_json(data).stateful is False


def test_a_plan_says_what_its_job_declares_of_its_config_or_nothing() -> None:
    plan = PlanRecord.of(JOB, [{}], planned_by=W1, at_ms=0, config_schema={"type": "object"})
    data = plan.to_json()
    assert PlanRecord.from_json(data) == plan
    del data["config_schema"]
    older = PlanRecord.from_json(data)
    assert older.config_schema is None
    assert not plan.says_the_same(older)
    assert plan.fingerprints == older.fingerprints, "nothing starts again for it"
    with pytest.raises(ValueError, match="config_schema"):
        PlanRecord.from_json({**data, "config_schema": {"description": "x" * LARGEST_SCHEMA}})


def test_a_job_is_stateful_as_its_present_plan_says() -> None:
    plan = PlanRecord.of(JOB, [{}], planned_by=W1, at_ms=0, stateful=True)
    jobs = JobsSnapshot(jobs={"flights": JOB}, plans={"flights": plan})
    assert jobs.stateful == {"flights"}
    assert replace(jobs, jobs={}).stateful == frozenset()
    assert replace(jobs, jobs={"flights": _job(config={})}).stateful == frozenset(), "it is to be planned anew"
    assert replace(jobs, plans={"flights": replace(plan, stateful=False)}).stateful == frozenset()


def test_that_tasks_are_stateful_now_is_no_reason_to_start_them_again() -> None:
    plan = PlanRecord.of(JOB, [{}], planned_by=W1, at_ms=0)
    assert replace(plan, stateful=True).fingerprints == plan.fingerprints
