"""The state of a group, which its spokesman's process sends from time to time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from airflow_provider.state.metrics import declared
from airflow_provider.state.metrics.declared import Metric
from airflow_provider.state.metrics.lags import lags, lags_of_removed
from airflow_provider.state.metrics.missing_slots import room
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.metrics.waiting import waits_since_ms
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import keeps_failing
from airflow_provider.state.reports.learners import LearnerTask, learners
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.slots.capacity import slot_shortage
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.state.views.task_progress.shown_tasks import shown_statuses
from airflow_provider.state.views.task_progress.task_places import status_of, tasks_of
from airflow_provider.values.model import planner_of


def gauges(
    group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int, unconverged_since_ms: int | None
) -> Iterator[Sample]:
    """All gauges of a group and its jobs. Takes time in proportion to the number of tasks.

    :param now_ms: wall clock, milliseconds since 1970
    :param unconverged_since_ms: likewise; None: the group is converged
    """

    def of_group(metric: Metric, value: float) -> Sample:
        return Sample(metric=metric, value=value, tags=(group,))

    if status.group is not None:
        now = room(jobs, status, now_ms=now_ms)
        shortage = slot_shortage(jobs, status)
        yield of_group(declared.MEMBERS, len(present(status)))
        yield of_group(declared.EPOCH, status.group.epoch)
        yield of_group(declared.CONVERGED, int(unconverged_since_ms is None))
        yield of_group(declared.UNCONVERGED_S, _seconds(unconverged_since_ms, now_ms))
        yield of_group(declared.SINCE_REBALANCE_S, _seconds(status.group.at_ms, now_ms))
        yield of_group(declared.LOST_TASKS, len(status.group.waiting))
        yield of_group(declared.SLOTS, now.slots)
        yield of_group(declared.BUSY_SLOTS, now.busy)
        yield of_group(declared.LACKING_SLOTS, now.lacking)
        yield of_group(declared.SPARE_SLOTS, now.spare)
        yield of_group(declared.MISSING_SLOTS, 0 if shortage is None else shortage.missing)
    yield of_group(declared.JOBS, len(jobs.jobs))
    for job in jobs.jobs:
        yield from _of_job(group, job, jobs, status, now_ms)
    if status.group is not None and status.group.learns:
        yield from _of_learners(group, jobs, learners(status))


def gauges_of_removed(group: str, job: str) -> Iterator[Sample]:
    """Zeros for a job that was removed: otherwise its gauges would keep their last values."""
    for state in TaskState:
        yield Sample(metric=declared.TASKS, value=0, tags=(group, job, state.value))
    for metric in (declared.PENDING_AGE_S, declared.FAILING, declared.LEARNERS, declared.LEARNER_LAG):
        yield Sample(metric=metric, value=0, tags=(group, job))
    yield from lags_of_removed(group, job)


def _of_job(group: str, job: str, jobs: JobsSnapshot, status: StatusSnapshot, now_ms: int) -> Iterator[Sample]:
    progress = job_progress(job, jobs, status)
    assert progress is not None, "it is one of these jobs"
    for state in TaskState:
        yield Sample(metric=declared.TASKS, value=progress.counts.get(state, 0), tags=(group, job, state.value))
    waits = _seconds(waits_since_ms(job, jobs, status), now_ms)
    yield Sample(metric=declared.PENDING_AGE_S, value=waits, tags=(group, job))
    words = tuple(_present_words(job, jobs, status))
    yield Sample(metric=declared.FAILING, value=sum(map(keeps_failing, words)), tags=(group, job))
    if jobs.jobs[job].kind is TaskKind.STREAMING:
        shown = (last for _, last in shown_statuses(job, jobs, status, {}) if last is not None)
        yield from lags(group, job, shown, now_ms)


def _present_words(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[TaskStatus]:
    """The records of the job's present run, its planner's among them."""
    definition, plan = jobs.jobs[job], jobs.plan_of(job)
    said = [status_of(planner_of(job), definition, definition.fingerprint, status.tasks)]
    tasks = () if plan is None else tasks_of(definition, plan, status.tasks)
    yield from filter(None, chain(said, (last for _, last in tasks)))


def _of_learners(group: str, jobs: JobsSnapshot, found: tuple[LearnerTask, ...]) -> Iterator[Sample]:
    for job in jobs.jobs:
        of_job = [one for one in found if one.task.job == job]
        lag = max((1 - one.progress for one in of_job if not one.ready), default=0)
        yield Sample(metric=declared.LEARNERS, value=len(of_job), tags=(group, job))
        yield Sample(metric=declared.LEARNER_LAG, value=lag, tags=(group, job))


def _seconds(since_ms: int | None, now_ms: int) -> float:
    """Seconds since then; 0 if the clocks of two hosts make it negative."""
    return 0 if since_ms is None else max(0, now_ms - since_ms) / 1000
