"""What a Spark Connect server tells of its work adds up."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.spark.connect.reported_counts import ReportedCounts
from airflow_provider.spark.local.job_counts import JobCounts


@dataclass
class Stage:
    num_tasks: int
    num_completed_tasks: int
    done: bool = False


def told(counts: ReportedCounts, operation: str, *stages: Stage, done: bool = False) -> None:
    """As PySpark calls it."""
    counts(stages=stages, inflight_tasks=1, operation_id=operation, done=done)


def test_of_what_runs_the_last_word_counts() -> None:
    counts = ReportedCounts()
    assert counts.look() == JobCounts()
    told(counts, "a", Stage(4, 1))
    told(counts, "a", Stage(4, 4, done=True), Stage(10, 2))
    told(counts, "b", Stage(3, 0))
    assert counts.look() == JobCounts(stages=3, stages_done=1, tasks=17, tasks_done=6)


def test_what_has_ended_is_done_and_what_it_has_skipped_does_not_count() -> None:
    counts = ReportedCounts()
    told(counts, "a", Stage(4, 3), Stage(10, 0))
    told(counts, "a", Stage(4, 3), Stage(10, 0), done=True)
    told(counts, "b", Stage(5, 1))
    assert counts.look() == JobCounts(stages=2, stages_done=1, tasks=9, tasks_done=5)


def test_when_the_code_that_asked_has_returned_nothing_is_open() -> None:
    counts = ReportedCounts()
    told(counts, "a", Stage(4, 4, done=True), Stage(10, 0))
    told(counts, "a", done=True)
    told(counts, "b", Stage(5, 4), Stage(7, 0), Stage(2, 2, done=True))
    assert counts.look() == JobCounts(stages=3, stages_done=1, tasks=14, tasks_done=6)
    assert counts.look_at_the_end() == JobCounts(stages=2, stages_done=2, tasks=7, tasks_done=7)


def test_an_operation_that_is_too_short_to_be_told_of_does_not_count() -> None:
    counts = ReportedCounts()
    counts(stages=None, inflight_tasks=0, operation_id=None, done=True)
    assert counts.look() == JobCounts()
