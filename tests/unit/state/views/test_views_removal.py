"""What is known of a job that was removed."""

from __future__ import annotations

import json

import pytest
from view_bench import Log

from airflow_provider.state.records import (
    JobDefinition,
    Removal,
    encode,
    job_key,
)
from airflow_provider.state.views.jobs_view import JobsView

JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=3, run_key="r1")


@pytest.fixture
def jobs() -> Log[JobsView]:
    return Log(JobsView())


def test_who_removed_a_job_is_known_until_it_comes_again(jobs: Log[JobsView]) -> None:
    removal = Removal(by="ann@here", at_ms=1_700_000_000_000, run_key="r1", bounded=True)
    jobs.write(job_key("a"), JOB)
    jobs.write(
        job_key("a"),
        json.dumps({"v": 1, **JOB.to_json(), "removed": removal.to_json()}, separators=(",", ":")).encode(),
    )
    assert not jobs.view.snapshot().jobs
    jobs.write(job_key("a"), None)
    assert not jobs.view.snapshot().jobs
    assert dict(jobs.view.snapshot().removals) == {"a": removal}
    assert dict(jobs.view.snapshot().removed_at) == {"a": 2}
    assert str(removal) == "was removed by ann@here at 2023-11-14 22:13:20 UTC"
    jobs.write(job_key("a"), JOB)
    assert not jobs.view.snapshot().removals


@pytest.mark.parametrize("removed", [1, [], {}, {"by": 3}, {"by": "a", "at_ms": 9e99, "run_key": "", "bounded": True}])
def test_a_removal_that_says_nothing_that_can_be_read_is_a_removal(jobs: Log[JobsView], removed: object) -> None:
    jobs.write(job_key("a"), JOB)
    jobs.write(job_key("a"), encode({**JOB.to_json(), "removed": removed}))
    jobs.write(job_key("a"), None)
    snapshot = jobs.view.snapshot()
    assert (dict(snapshot.jobs), dict(snapshot.removed_at), dict(snapshot.removals)) == ({}, {"a": 2}, {})
    assert snapshot.unreadable == 1


def test_the_offset_of_a_removal_is_known_until_the_job_comes_again(jobs: Log[JobsView]) -> None:
    jobs.write(job_key("a"), JOB)
    jobs.write(job_key("a"), None)
    jobs.write(job_key("never there"), None)
    assert dict(jobs.view.snapshot().removed_at) == {"a": 1, "never there": 2}
    jobs.write(job_key("a"), JOB)
    assert dict(jobs.view.snapshot().removed_at) == {"never there": 2}
    for number in range(1_000):
        jobs.write(job_key(f"run-{number}"), None)
    assert len(jobs.view.snapshot().removed_at) == 1_000
    assert "never there" not in jobs.view.snapshot().removed_at
