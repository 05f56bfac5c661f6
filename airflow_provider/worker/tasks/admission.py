"""What a worker does with a task that it gets, before anything is started: what was written about the task decides
whether it waits, is paused, stays as failed, is a suspect, or still has a query that is to be taken over.

The same happens when a task that is here begins anew: its work has changed, or it has stopped to start again.
"""

from __future__ import annotations

from airflow_provider.state.records import TaskStatus, TaskWork
from airflow_provider.state.views.task_progress.progress import has_failed, needs_running
from airflow_provider.values.model import Epoch, TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.commands import TakeOver
from airflow_provider.worker.tasks.runs.process_deaths import died_with_its_process
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.taking_over import first_run, is_said_to_run, last_word, taken_over
from airflow_provider.worker.tasks.state import Execution


def admit(x: Execution, task: TaskId, epoch: Epoch) -> bool:
    """Add a task, unless it has already ended or is not configured. If it seems to run elsewhere, its last process may
    have more to say: wait for that first.

    :returns: whether it is here now
    """
    x.last_words.forget(task)
    work, last = x.jobs.work_of(task), x.status.tasks.get(task)
    if work is None or not _seems_to_run_elsewhere(x, work, last):
        return admit_as_recorded(x, task, epoch, read_to=x.jobs.offset)
    x.last_words.wait_for(task, now_ms=x.now, wall_ms=x.wall)
    x.keep(replaced(first_run(work, epoch, last, now_ms=x.now, wall_ms=x.wall), read_to=x.jobs.offset))
    return True


def admit_as_recorded(x: Execution, task: TaskId, epoch: Epoch, *, read_to: int) -> bool:
    """As :func:`admit`, when everything has been read that is written about the task.

    :param read_to: restarts that were requested after this offset of the jobs topic are still to be done
    """
    x.last_words.forget(task)
    work = x.jobs.work_of(task)
    if work is None:
        return False
    if not needs_running(task, x.jobs, x.status.tasks):
        return _admit_failed(x, work, epoch)
    last = last_word(x.status.tasks.get(task), x.stops.pop(task, None))
    run = first_run(work, epoch, last, now_ms=x.now, wall_ms=x.wall)
    run = _suspected(x, replaced(run, read_to=read_to, runs_on=x.settings.server), last)
    unended = x.status.unended.get(task)
    if unended:
        _take_over(x, run, unended[0], attempt=max(run.attempt, unended[0].attempt))
        return True
    if last is not None and last.lives_on:
        _take_over(x, run, last, attempt=last.attempt)
        return True
    if x.jobs.is_paused(task.job):
        _admit_paused(x, run, last)
        return True
    claim = x.claims.of(work)
    if claim is not None:
        run = replaced(run, claim=claim)
    x.keep(run)
    x.suspects.admit(run)
    if claim is not None or is_said_to_run(last):
        x.write_waiting(task)
    return True


def _seems_to_run_elsewhere(x: Execution, work: TaskWork, last: TaskStatus | None) -> bool:
    """Whether its last record says so. What this worker's earlier processes have written was read at the start."""
    if last is None or last.worker == x.settings.worker:
        return False
    if last_word(last, x.stops.get(work.task)) is not last:
        return False
    is_of_it = last.is_of(work.definition.run_key, work.fingerprint)
    return is_of_it and work.task not in x.status.unended and _died(x, last)


def _died(x: Execution, last: TaskStatus | None) -> bool:
    mine, process = x.settings.worker, x.settings.process
    return died_with_its_process(last, x.status, worker=mine, process=process, before=x.before)


def _suspected(x: Execution, run: TaskRun, last: TaskStatus | None) -> TaskRun:
    if not _died(x, last):
        return run
    assert last is not None
    same = last.is_of(run.work.definition.run_key, run.work.fingerprint)
    return x.suspects.process_ended(run, last).ended_otherwise_at(last.worker) if same else run


def _take_over(x: Execution, run: TaskRun, last: TaskStatus, *, attempt: int) -> None:
    """Take over the task's earlier query. If it is of another work, end it before anything else starts."""
    run = x.keep(taken_over(run, last, attempt=attempt, now_ms=x.now, wall_ms=x.wall))
    x.suspects.admit(run)
    x.do(TakeOver(run=run))
    if not last.is_of(run.work.definition.run_key, run.work.fingerprint):
        x.stop(run.task, RunState.RESTARTING, "its configuration has changed")
    elif x.jobs.is_paused(run.task.job):
        x.stop(run.task, RunState.RESTARTING, "its job is paused")
    elif (asked := x.jobs.restart_since(run.task, run.read_to)) is not None:
        x.keep(run.with_all_retries())
        x.stop(run.task, RunState.RESTARTING, asked.in_words())


def _admit_failed(x: Execution, work: TaskWork, epoch: Epoch) -> bool:
    """A task that has failed for good stays here, as it did where it failed."""
    if not x.keeps_failed or not has_failed(work.task, x.jobs, x.status.tasks):
        return False
    x.rest(TaskRun(work=work, epoch=epoch, attempt=x.status.tasks[work.task].attempt))
    return True


def _admit_paused(x: Execution, run: TaskRun, last: TaskStatus | None) -> None:
    """A paused task does not claim its checkpoint, so that it keeps no other task from it."""
    x.keep(replaced(run, state=RunState.PAUSED))
    x.suspects.admit(run)
    x.idle_since_ms = x.now
    if is_said_to_run(last):
        x.write_waiting(run.task)
