"""What else people should know when they have asked for something: what it still waits for, and what has no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from airflow_provider.state.records import ControlAction, JobDefinition, TaskKind, TaskState
from airflow_provider.state.records.jobs_topic.checkpoint_conf import without_effect
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import is_watched, present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import running_tasks
from airflow_provider.values.counted import counted
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import TaskId, WorkerId


def of_stop(tasks: Iterable[TaskId], jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[str, ...]:
    """:param tasks: those that are to stop"""
    there = present(status)
    lasts = [last for task in sorted(tasks) if (last := status.tasks.get(task)) and last.state.runs]
    running = [jobs.label(last.task) for last in lasts if is_watched(last, status, there)]
    unwatched = [jobs.label(last.task) for last in lasts if last.lives_on and not is_watched(last, status, there)]
    said = []
    if running:
        what = counted(len(running), "running task")
        said.append(f"waits until {what} {'has' if len(running) == 1 else 'have'} stopped: {in_short(running)}")
    if unwatched:
        said.append(f"no worker is there to stop what may still run (see cospark jobs orphans): {in_short(unwatched)}")
    return tuple(said)


def of_leaving(
    workers: Collection[WorkerId], action: ControlAction, jobs: JobsSnapshot, status: StatusSnapshot, *, stop_now: str
) -> tuple[str, ...]:
    """What workers that are asked to leave wait for.

    :param stop_now: what to do instead of a drain that a stream keeps from ending
    """
    said = []
    if busy := running_tasks(workers, jobs, status):
        who = "it leaves" if len(workers) == 1 else "they leave"
        how = "stopped" if action is ControlAction.STOP else "ended"
        said.append(f"{who} when these have {how}: {in_short(busy, most=10)}")
    if action is ControlAction.DRAIN:
        streams = Counter(
            last.worker
            for last in status.tasks.values()
            if last.state is TaskState.RUNNING and last.kind is TaskKind.STREAMING
        )
        for worker in workers:
            if number := streams[worker]:
                have = "it has" if number == 1 else "they have"
                leaves = f"leaves when {have} ended; to have it leave now, {stop_now}"
                said.append(f"{worker} runs {counted(number, 'stream')}, and {leaves}")
    return tuple(said)


def of_change(before: JobDefinition, now: JobDefinition, jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[str, ...]:
    """:param now: the altered definition"""
    said = []
    if now.fingerprint != before.fingerprint:
        said.append(_when_planned(now.name, jobs, status))
    if now.session_conf != before.session_conf:
        said.append("each task has the new settings of its session from its next start on")
    return (*said, *filter(None, (without_effect(before, now),)))


def _when_planned(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> str:
    halt = jobs.halt_of(job)
    if halt is not None:
        return f"is planned again when it is resumed: it is {halt.halt.value}"
    if not present(status):
        return "is planned again when a worker joins: the group has none"
    return "is planned again first, and then the tasks restart whose own configs have changed"
