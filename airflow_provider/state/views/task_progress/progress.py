"""What jobs and statuses say together: what should run, how far it is, and what a leader may do about it. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Final

from airflow_provider.assignment.model import BEGINS_AGAIN_RANK, GOES_ON_RANK
from airflow_provider.state.records import (
    Halt,
    HaltRecord,
    JobDefinition,
    PlanRecord,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from airflow_provider.state.records.status_topic.failing import keeps_failing, standing_error
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import halted_as, shown_state
from airflow_provider.state.views.task_progress.task_places import Statuses, status_of, tasks_of, where_all_are
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId, labelled, planner_of

_MOST_ERRORS: Final = 20
"""If one table is missing, two thousand tasks may fail with the same error."""
_HALTED: Final = (TaskState.PAUSED, TaskState.STOPPED)


def configured(jobs: JobsSnapshot, statuses: Statuses) -> Tasks:
    """The planners and tasks that should be running: what an assignor deals out.

    A planner as long as its job's present run has no plan, and for ever if it is to plan again and again, unless it
    failed for good. A task as long as it has neither finished nor failed for good in the present run. Stopped jobs and
    tasks are left out.
    """
    return jobs.configured.get(statuses, lambda: frozenset(_unfinished(jobs, statuses)))


def _unfinished(jobs: JobsSnapshot, statuses: Statuses) -> Iterator[TaskId]:
    stopped = jobs.stopped_tasks()
    for name, definition in jobs.jobs.items():
        if jobs.is_stopped(name):
            continue
        plan = jobs.plan_of(name)
        if _is_to_plan(definition, plan, statuses):
            yield planner_of(name)
        if plan is not None:
            for task, status in tasks_of(definition, plan, statuses):
                if stopped and task in stopped:
                    continue
                if status is None:
                    yield task
                elif not status.state.final:
                    yield status.task  # the same object each time: new ones would wake the garbage collector


def _is_to_plan(definition: JobDefinition, plan: PlanRecord | None, statuses: Statuses) -> bool:
    planner = status_of(planner_of(definition.name), definition, definition.fingerprint, statuses)
    failed = planner is not None and planner.state is TaskState.FAILED
    planned = plan is not None and plan.is_of(definition)
    return not failed and (not planned or definition.replan_interval_ms is not None)


class JobState(str, Enum):
    """How far a job's present run is."""

    PLANNING = "planning"
    """Has no plan yet."""
    RUNNING = "running"
    """Has a plan, and something left to run; for an unbounded job, as long as nothing fails."""
    FINISHED = "finished"
    """Bounded, and every task finished."""
    FAILED = "failed"
    """The planner or a task failed for good, and nobody has halted the job. Its other tasks may still run: see
    ``complete``.
    """
    PAUSED = "paused"
    """Somebody has paused it, and there is something left to run, or it has no end."""
    STOPPED = "stopped"
    """Somebody has stopped it, and there is something left to run, or it has no end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job's present run is.

    :param complete: nothing is left to run
    :param failed: the planner or a task has failed for good
    :param planned: how many tasks its plan has, None before there is one
    :param counts: how many tasks are in each state; states without tasks are left out
    :param errors: why tasks (and the planner) failed last, of those that failed for good or wait for another attempt
    :param earlier: those of them that have been started again since, or are to be
    :param failing: what fails again and again and is tried again: how often in a row it has failed
    :param names: what the plan calls those with errors, as far as it does
    """

    job: str
    run_key: str
    state: JobState
    complete: bool
    failed: bool
    planned: int | None
    counts: Mapping[TaskState, int]
    errors: Mapping[TaskId, TaskFailure]
    earlier: Tasks = NO_TASKS
    failing: Mapping[TaskId, int] = field(default_factory=dict)
    names: Mapping[TaskId, str] = field(default_factory=dict)

    @property
    def counts_in_words(self) -> str:
        """As in "1 pending, 4 running"."""
        return ", ".join(f"{count} {state.value}" for state, count in self.counts.items())

    def errors_in_words(self, *, most: int = _MOST_ERRORS) -> list[str]:
        """A line for each of the first errors, the final ones before others and those of what fails again and again
        before those that may be momentary, and one for how many more there are.
        """
        tasks = sorted(self.errors, key=lambda task: (task in self.earlier, task not in self.failing, task))
        lines = [f"{self._whose(task)}: {self.errors[task].line}" for task in tasks[:most]]
        more = len(tasks) - most
        return [*lines, f"and {more} more {'error' if more == 1 else 'errors'}"] if more > 0 else lines

    def _whose(self, task: TaskId) -> str:
        label = labelled(task, self.names.get(task, ""))
        if task in self.failing:
            return f"{label}, failed {self.failing[task]} times in a row"
        return f"{label}, an earlier attempt failed" if task in self.earlier else label

    @property
    def failing_in_words(self) -> str:
        """What fails again and again, and is tried again; empty: nothing."""
        if not self.failing:
            return ""
        tasks = [labelled(task, self.names.get(task, "")) for task in sorted(self.failing)]
        fails = "fails" if len(tasks) == 1 else "fail"
        return f"{in_short(tasks)} {fails} again and again, and {'is' if len(tasks) == 1 else 'are'} tried again"

    @property
    def failures_in_words(self) -> str:
        """Why it failed: a line for each of the first tasks."""
        return "\n".join(self.errors_in_words()) or "no task has left an error"

    @property
    def running_everywhere(self) -> bool:
        """Whether every task that still has to run does run; never true of a job with nothing left to run."""
        finished = self.counts.get(TaskState.FINISHED, 0)
        return self.planned is not None and self.running > 0 and self.running + finished == self.planned

    @property
    def running(self) -> int:
        """How many tasks run, those that are stalled included."""
        return sum(count for state, count in self.counts.items() if state.runs)


def job_progress(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> JobProgress | None:
    """How far the present run of ``job`` is; None if there is no such job. Worked out once for all who ask."""
    known: dict[str, JobProgress | None] = jobs.progress.get(status, dict)
    if job not in known:
        known[job] = _job_progress(job, jobs, status)
    return known[job]


def _job_progress(job: str, jobs: JobsSnapshot, status: StatusSnapshot) -> JobProgress | None:
    statuses = status.tasks
    definition = jobs.jobs.get(job)
    if definition is None:
        return None
    plan = jobs.plan_of(job)
    planner = status_of(planner_of(job), definition, definition.fingerprint, statuses)
    counts: Counter[TaskState] = Counter()
    errors = {} if planner is None or planner.error is None else {planner.task: planner.error}
    earlier = {task for task in errors if planner is not None and planner.state is not TaskState.FAILED}
    halted, there = halted_as(job, jobs), present(status)
    failing = {}
    if planner is not None and keeps_failing(planner) and halted is None:
        failing[planner.task] = planner.counted_failures
    for found in where_all_are(job, jobs, status):
        last = found.last
        state = shown_state(found.state, last, None if found.halted else halted, status, there)
        counts[state] += 1
        if last and keeps_failing(last) and state not in _HALTED:
            failing[found.task] = last.counted_failures
        error = standing_error(last) if last else None
        if last and error and last.state is not TaskState.FINISHED:
            errors[found.task] = error
            if last.state is not TaskState.FAILED:
                earlier.add(found.task)
    one_job = JobsSnapshot(jobs={job: definition}, plans={job: plan} if plan else {})
    complete = next(_unfinished(one_job, statuses), None) is None
    failed = counts[TaskState.FAILED] > 0 or (planner is not None and planner.state is TaskState.FAILED)
    return JobProgress(
        job=job,
        run_key=definition.run_key,
        state=_job_state(
            bounded=definition.bounded,
            failed=failed,
            planned=plan is not None,
            complete=complete,
            halt=jobs.halt_of(job),
        ),
        complete=complete,
        failed=failed,
        planned=len(plan.configs) if plan else None,
        counts={state: counts[state] for state in TaskState if counts[state]},
        errors=errors,
        earlier=frozenset(earlier),
        failing=failing,
        names={task: name for task in {**errors, **failing} if (name := jobs.name_of(task))},
    )


def _job_state(*, bounded: bool, failed: bool, planned: bool, complete: bool, halt: HaltRecord | None) -> JobState:
    if halt is not None and not (bounded and complete):
        return JobState.PAUSED if halt.halt is Halt.PAUSED else JobState.STOPPED
    if failed:
        return JobState.FAILED
    if not planned:
        return JobState.PLANNING
    return JobState.FINISHED if complete else JobState.RUNNING


def group_drained(jobs: JobsSnapshot, statuses: Statuses, *, since: int | None = None) -> bool:
    """Whether the group has done its work: there is at least one job, every job is bounded, and nothing is left. What
    is stopped may be resumed or restarted.

    :param since: an offset of the jobs topic: if there is no job, it is enough that one was removed since then
    """
    if _something_left(jobs, statuses) or any(_is_left(task, statuses) for task in jobs.stopped_tasks()):
        return False
    if not jobs.jobs:
        return since is not None and any(removed_at >= since for removed_at in jobs.removed_at.values())
    return all(definition.bounded and not jobs.is_stopped(name) for name, definition in jobs.jobs.items())


def _is_left(stopped: TaskId, statuses: Statuses) -> bool:
    """Whether a task that was stopped singly has not ended by itself in the meantime."""
    last = statuses.get(stopped)
    return last is None or not last.state.final


def why_idle(jobs: JobsSnapshot, statuses: Statuses) -> str | None:
    """Why nobody in the group has anything to run, as what is said of it; None if somebody has, or is to have."""
    if not jobs.jobs:
        return "has no jobs" if jobs.removed_at else "has no jobs yet"
    return None if _something_left(jobs, statuses) else "has nothing left to run"


def _something_left(jobs: JobsSnapshot, statuses: Statuses) -> bool:
    def look() -> TaskId | None:
        """What was left at the last call, if it still is; otherwise the last task that is left, which is likely to end
        last. To look through all of them at each change would keep a loop busy.
        """
        before = jobs.unfinished.known
        if before is not None and needs_running(before, jobs, statuses):
            return before
        return next(iter(deque(_unfinished(jobs, statuses), maxlen=1)), None)

    return jobs.unfinished.get(statuses, look) is not None


def needs_running(task: TaskId, jobs: JobsSnapshot, statuses: Statuses) -> bool:
    """Whether a task is :func:`configured`. One that was assigned need not be: its leader may have known less."""
    work = jobs.work_of(task)
    if work is None:
        return False
    if task.is_planner:
        return _is_to_plan(work.definition, jobs.plan_of(task.job), statuses)
    status = status_of(task, work.definition, work.fingerprint, statuses)
    return status is None or not status.state.final


def has_failed(task: TaskId, jobs: JobsSnapshot, statuses: Statuses) -> bool:
    """Whether a task has failed for good in its present run, and is not stopped: its worker keeps a place for it."""
    work = jobs.work_of(task)
    last = None if work is None else status_of(task, work.definition, work.fingerprint, statuses)
    return last is not None and last.state is TaskState.FAILED


def may_run(task: TaskId, jobs: JobsSnapshot, statuses: Statuses) -> bool:
    """Whether the worker that has a task is to run it now: it keeps the tasks of a paused job, but runs none."""
    return needs_running(task, jobs, statuses) and not jobs.is_paused(task.job)


def converged(record: GroupRecord | None, workers: Mapping[WorkerId, WorkerStatus]) -> bool:
    """Whether the assignment of the record is what runs, and is meant to stay.

    That is: it revokes nothing, no delay runs, and each of its members has reported that it applied that epoch.
    """
    if record is None or record.revokes or record.delay_ms or record.deadline_ms:
        return False
    return all(
        worker in workers and workers[worker].state.applied and workers[worker].epoch >= record.epoch
        for worker in record.members
    )


def revocation_rank(statuses: Statuses) -> dict[TaskId, int]:
    """What costs least to stop: what is pending, which is left out; then streams and what lives on without its worker;
    then other batch tasks, which run.
    """
    return {
        task: GOES_ON_RANK if status.kind is TaskKind.STREAMING or status.lives_on else BEGINS_AGAIN_RANK
        for task, status in statuses.items()
        if status.state is TaskState.RUNNING
    }


def spoken_epoch(status: StatusSnapshot) -> Epoch:
    """The highest epoch in any record of a worker or a task; 0: there is none. Tasks count, too: a worker that outlived
    the topics may have written about them to the new ones before it ended.
    """
    words: Iterator[WorkerStatus | TaskStatus] = chain(status.workers.values(), status.tasks.values())
    return max((word.epoch for word in words), default=Epoch(0))
