"""How a group is, as gauges; and since when its tasks wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from airflow_values import group_record, group_snapshot, job, jobs_snapshot, status_snapshot

from airflow_provider.assignment.model import Memory
from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.declared import Kind, Metric, Speaker
from airflow_provider.state.metrics.gauges import gauges, gauges_of_removed
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.metrics.waiting import waits_since_ms
from airflow_provider.state.records import Lesson, StreamProgress, TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.lag import Lag
from airflow_provider.values.model import Epoch, SubProtocol, TaskId, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
T0, T1, T2 = (TaskId("job", index) for index in range(3))
JOBS = jobs_snapshot(job(submitted_at_ms=1), tasks=3)
NOW_MS = 65_000
STREAMS = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=1)
READS = replaced(
    status_snapshot(STREAMS, "job", TaskState.RUNNING, worker="w1").tasks[T0],
    progress=StreamProgress(batch=1, rows_per_second=1.0, at_ms=1, lag=Lag(offsets=1, files=1, versions=1, bytes=1)),
)
"""A stream of which all is known."""


def told(jobs: JobsSnapshot, status: StatusSnapshot, since_ms: int | None = None) -> dict[Metric, float]:
    """Every gauge that has no tag but its group and job."""
    samples = gauges("g", jobs, status, now_ms=NOW_MS, unconverged_since_ms=since_ms)
    return {sample.metric: sample.value for sample in samples if sample.metric is not declared.TASKS}


def last(task: TaskId, state: TaskState, **others: Any) -> TaskStatus:
    work = JOBS.work_of(task)
    assert work is not None
    word = {"task": task, "state": state, "epoch": Epoch(5), "worker": W1, "fingerprint": work.fingerprint}
    return TaskStatus(**{**word, "run_key": "r1", **others})


def group(*tasks: TaskStatus, **changes: Any) -> StatusSnapshot:
    return replace(group_snapshot(5, **changes), tasks={task.task: task for task in tasks})


@pytest.mark.parametrize(("slots", "busy"), [(1, 1), (2, 2), (9, 2)])
def test_a_task_takes_its_slots_as_far_as_its_worker_has_them(slots: int, busy: int) -> None:
    jobs = jobs_snapshot(job(submitted_at_ms=1), tasks=3, slots=slots)
    work = jobs.work_of(T0)
    assert work is not None
    status = group(replaced(last(T0, TaskState.RUNNING), fingerprint=work.fingerprint))
    assert told(jobs, status)[declared.BUSY_SLOTS] == busy


def test_a_group_that_has_converged() -> None:
    assert told(JOBS, group(last(T0, TaskState.RUNNING, started_at_ms=1))) == {
        declared.MEMBERS: 2,
        declared.EPOCH: 5,
        declared.CONVERGED: 1,
        declared.UNCONVERGED_S: 0,
        declared.SINCE_REBALANCE_S: 60,
        declared.LOST_TASKS: 0,
        declared.SLOTS: 4,
        declared.BUSY_SLOTS: 1,
        declared.LACKING_SLOTS: 0,
        declared.SPARE_SLOTS: 1,
        declared.MISSING_SLOTS: 0,
        declared.JOBS: 1,
        declared.PENDING_AGE_S: 64.999,
        declared.FAILING: 0,
    }


def test_tasks_that_fail_again_and_again_are_counted_until_they_go_well() -> None:
    pending = last(T0, TaskState.PENDING, failures=5)
    well, few = last(T1, TaskState.RUNNING, failures=9, forgiven=9), last(T2, TaskState.PENDING, failures=4)
    assert told(JOBS, group(pending, well, few))[declared.FAILING] == 1
    for_good = replaced(pending, state=TaskState.FAILED)
    assert told(JOBS, group(for_good, well, few))[declared.FAILING] == 0, "another gauge has it"


def test_a_group_that_has_not_says_for_how_long() -> None:
    values = told(JOBS, group(), since_ms=62_500)
    assert (values[declared.CONVERGED], values[declared.UNCONVERGED_S]) == (0, 2.5)


def test_a_clock_that_is_ahead_makes_no_negative_time() -> None:
    values = told(JOBS, group(at_ms=NOW_MS + 1_000), since_ms=NOW_MS + 1)
    assert values[declared.SINCE_REBALANCE_S] == values[declared.UNCONVERGED_S] == 0


def test_who_has_left_is_no_member_and_has_no_slots() -> None:
    status = group()
    left = replace(status.workers[W2], state=WorkerPhase.LEFT)
    values = told(JOBS, replace(status, workers={**status.workers, W2: left}))
    assert (values[declared.MEMBERS], values[declared.SLOTS]) == (1, 2)


def test_tasks_that_wait_for_their_worker_and_streams_without_a_slot() -> None:
    memory = Memory(assignment={WorkerId("w3"): frozenset({T2})}, deadline_ms=NOW_MS)
    assert told(JOBS, group(memory=memory))[declared.LOST_TASKS] == 1
    streams = jobs_snapshot(job(kind=TaskKind.STREAMING), tasks=6)
    values = told(streams, group())
    assert (values[declared.MISSING_SLOTS], values[declared.LACKING_SLOTS], values[declared.SPARE_SLOTS]) == (2, 2, 0)


def test_before_the_first_round_only_jobs_are_known() -> None:
    assert told(JOBS, StatusSnapshot()).keys() == {declared.JOBS, declared.PENDING_AGE_S, declared.FAILING}


def test_every_state_is_said_so_that_none_keeps_an_old_number() -> None:
    samples = gauges("g", JOBS, group(last(T0, TaskState.FINISHED)), now_ms=NOW_MS, unconverged_since_ms=None)
    counts = {sample.tags: sample.value for sample in samples if sample.metric is declared.TASKS}
    assert counts.pop(("g", "job", "finished")) == 1
    assert counts.keys() == {("g", "job", state.value) for state in TaskState if state is not TaskState.FINISHED}
    assert sum(counts.values()) == 2


def test_a_job_that_is_removed_is_set_to_zero_in_all_that_is_said_of_a_job() -> None:
    learns = group_record(5, protocol=SubProtocol.EXTENSIBLE)
    status = replace(group(READS), group=learns)
    of_job = {
        (sample.metric, sample.tags)
        for sample in gauges("g", STREAMS, status, now_ms=0, unconverged_since_ms=None)
        if len(sample.tags) > 1
    }
    gone = list(gauges_of_removed("g", "job"))
    assert {(sample.metric, sample.tags) for sample in gone} == of_job
    assert not any(sample.value for sample in gone)


def test_the_learner_that_has_most_left_tells_the_lag() -> None:
    learning = {W2: frozenset({T0, T1, T2})}
    status = group(learning=learning, protocol=SubProtocol.EXTENSIBLE)
    lessons = (Lesson(T0, 0.75, False), Lesson(T1, 0.25, True), Lesson(T2, 0.5, False))
    teaching = replace(status.workers[W2], learning=lessons)
    values = told(JOBS, replace(status, workers={**status.workers, W2: teaching}))
    assert (values[declared.LEARNERS], values[declared.LEARNER_LAG]) == (3, 0.5)
    idle = told(JOBS, group(protocol=SubProtocol.EXTENSIBLE))
    assert (idle[declared.LEARNERS], idle[declared.LEARNER_LAG]) == (0, 0)


RUNS = last(T0, TaskState.RUNNING, started_at_ms=1), last(T1, TaskState.FINISHED), last(T2, TaskState.FAILED)


@pytest.mark.parametrize(
    ("changed", "since"),
    [
        (RUNS[0], None),
        (last(T0, TaskState.STOPPED, finished_at_ms=700), 700),
        (last(T0, TaskState.PENDING, finished_at_ms=700, retry_at_ms=900), 900),
        (last(T0, TaskState.FINISHED, run_key="an older run"), 1),
        (last(T0, TaskState.RUNNING, epoch=Epoch(4), worker=WorkerId("lost")), 5_000),
    ],
)
def test_a_task_waits_since_its_last_end_or_its_plan_or_the_round_that_missed_its_worker(
    changed: TaskStatus, since: int | None
) -> None:
    assert waits_since_ms("job", JOBS, group(changed, *RUNS[1:])) == since


def test_the_longest_wait_counts() -> None:
    early, late = last(T0, TaskState.STOPPED, finished_at_ms=700), last(T1, TaskState.STOPPED, finished_at_ms=400)
    assert waits_since_ms("job", JOBS, group(early, late, RUNS[2])) == 400


def test_a_job_without_a_plan_waits_since_it_was_submitted() -> None:
    assert waits_since_ms("job", jobs_snapshot(job(submitted_at_ms=77)), group()) == 77


def test_what_is_said_is_declared_as_the_spokesmans() -> None:
    learns = group(READS, protocol=SubProtocol.EXTENSIBLE)
    said = {sample.metric for sample in gauges("g", STREAMS, learns, now_ms=0, unconverged_since_ms=None)}
    assert said == {metric for metric in declared.DECLARED if metric.speaker is Speaker.SPOKESMAN} - {
        declared.REBALANCE_TIME
    }
    assert {metric.kind for metric in said} == {Kind.GAUGE}


@pytest.mark.parametrize(
    ("name", "flat", "tag"),
    [
        ("etl", "etl", "etl"),
        ("team.a/etl x", "team__a_etl_x", "team.a_etl_x"),
        ("größe", "gr__e", "gr__e"),
        ("", "_", "_"),
    ],
)
def test_names_of_people_are_written_as_airflow_takes_them(name: str, flat: str, tag: str) -> None:
    sample = Sample(metric=declared.JOBS, value=1, tags=(name,))
    assert sample.flat_name == f"cospark.group.jobs.{flat}"
    assert sample.tagged == {"group": tag}


def test_the_longest_names_fit_and_can_be_told_apart() -> None:
    one, other = (
        Sample(metric=declared.MOVED, value=1, tags=("g" * 249, f"{'j' * 300}{end}", "balance")) for end in "ab"
    )
    assert one.flat_name != other.flat_name
    with_tags = f"airflow.{one.metric.name}" + "".join(f",{tag}={value}" for tag, value in one.tagged.items())
    assert max(len(f"airflow.{one.flat_name}"), len(with_tags)) <= 250
