"""A summary of one group: its state, its members, the progress of its jobs, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.state.metrics.missing_slots import room
from airflow_provider.state.records import TaskState
from airflow_provider.state.reports.groups.group_warnings import group_warnings
from airflow_provider.state.reports.learners import given_up
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import is_empty, present, stands_back, what_was
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import converged, job_progress, why_idle

_MOST_JOBS: Final = 50
_MOST_WRONG: Final = 20
_NOT_WRONG: Final = ("", Sight.STARTING.value)


class GroupState(str, Enum):
    """The state of a group."""

    NEW = "new"
    """No rebalance has been completed yet."""
    EMPTY = "empty"
    """All workers have left."""
    WAITING = "waiting"
    """A delay runs: lost tasks wait for their worker, or the next moves wait."""
    REBALANCING = "rebalancing"
    CONVERGED = "converged"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInShort:
    """The progress of a job.

    :param tasks: how many its plan has; None: there is none yet
    """

    job: str
    state: str
    bounded: bool
    tasks: int | None
    finished: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInShort:
    """A group, as its topics are now.

    :param words: its state in words
    :param because: why it rebalanced last
    :param until_ms: when a running delay ends, wall clock; 0: none runs
    :param room: its slots, and what waits for some, in words
    :param in_rounds: whether it rebalances in rounds, so that one can be requested
    :param more_jobs: how many jobs it has besides these
    :param wrong: problems that people should look at, in words
    """

    group: str
    state: GroupState
    words: str
    because: str
    until_ms: int
    members: int
    room: str
    epoch: int | None
    leader: str
    at_ms: int | None
    in_rounds: bool
    jobs: tuple[JobInShort, ...]
    more_jobs: int
    wrong: tuple[str, ...]


def group_in_short(group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int) -> GroupInShort:
    """Summarize a group.

    :param now_ms: wall clock, to decide whether a delay has ended
    """
    record = status.group
    state, words, until_ms = _state(jobs, status, now_ms)
    names = sorted(jobs.jobs)
    return GroupInShort(
        group=group,
        state=state,
        words=words,
        because=record.because if record else "",
        until_ms=until_ms,
        members=len(present(status)),
        room=room(jobs, status, now_ms=now_ms).in_words,
        epoch=record.epoch if record else None,
        leader=record.leader if record else "",
        at_ms=record.at_ms if record else None,
        in_rounds=isinstance(record, ClassicRecord),
        jobs=tuple(job_in_short(name, jobs, status) for name in names[:_MOST_JOBS]),
        more_jobs=max(0, len(names) - _MOST_JOBS),
        wrong=tuple(_wrong(jobs, status))[:_MOST_WRONG],
    )


def job_in_short(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> JobInShort:
    progress = job_progress(job, jobs, status)
    assert progress is not None
    return JobInShort(
        job=job,
        state=progress.state.value,
        bounded=jobs.jobs[job].bounded,
        tasks=progress.planned,
        finished=progress.counts.get(TaskState.FINISHED, 0),
        running=progress.running,
        failed=progress.counts.get(TaskState.FAILED, 0),
    )


def _state(jobs: JobsSnapshot, status: StatusSnapshot, now_ms: int) -> tuple[GroupState, str, int]:
    record = status.group
    if record is None:
        waits = "jobs wait for a worker" if jobs.jobs else "no job, and no worker yet"
        return GroupState.NEW, waits, 0
    if is_empty(status):
        return GroupState.EMPTY, what_was(status), 0
    if record.deadline_ms > now_ms:
        what = "lost tasks wait for their worker" if record.waiting else "the next moves wait"
        return GroupState.WAITING, what, record.deadline_ms
    if not converged(record, status.workers):
        return GroupState.REBALANCING, "rebalancing", 0
    idle = why_idle(jobs, status.tasks)
    return GroupState.CONVERGED, f"converged, {idle}" if idle else "converged", 0


def _wrong(jobs: JobsSnapshot, status: StatusSnapshot) -> Iterator[str]:
    yield from group_warnings(jobs, status)
    for name in sorted(jobs.jobs):
        progress = job_progress(name, jobs, status)
        assert progress is not None
        if progress.failed:
            failed = progress.counts.get(TaskState.FAILED, 0)
            what = {0: "its planner has failed", 1: "1 task has failed"}.get(failed, f"{failed} tasks have failed")
            yield f"job {name}: {what}"
        if progress.failing:
            yield f"job {name}: {progress.failing_in_words}"
    for worker, why in stands_back(status).items():
        yield f"worker {worker} stands back: {why}"
    for worker in sorted(present(status)):
        said = status.workers.get(worker)
        if said is not None and said.condition not in _NOT_WRONG and said.awaits is None:
            yield f"worker {worker}: {said.condition}"
    if status.group is None and jobs.jobs:
        yield "no worker has joined yet"
    for one in given_up(status):
        yield one.in_words(jobs.label)
    unreadable = jobs.unreadable + status.unreadable
    if unreadable:
        yield f"{unreadable} records of its topics can't be read and are skipped: see the API server's log"
