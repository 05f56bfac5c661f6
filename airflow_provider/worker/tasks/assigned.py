"""How a worker's tasks react to the membership and to the topics."""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import TaskState, is_driver
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks import orphan_queries
from airflow_provider.worker.tasks.admission import admit, admit_as_recorded
from airflow_provider.worker.tasks.commands import EndOrphan, GiveUpWriting, Inform, StartAttempt, WriteStatus
from airflow_provider.worker.tasks.events import (
    EpochAdvanced,
    FailedLetGo,
    LastWordsRead,
    RoomWanted,
    SlotFree,
    TasksGiven,
    TasksRevoked,
    TimerFired,
    TopicsRead,
)
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.taking_over import ended_elsewhere, is_said_to_run, says_that_it_was_released
from airflow_provider.worker.tasks.state import LAST_WORDS_MS, Execution

_MOST_SAID: Final = 100
"""The most waiting tasks that are recorded in one round: thousands of records would hold up the whole group."""


# ---- given


def on_given(x: Execution, task: TaskId, event: TasksGiven) -> None:
    _release_or_condemn(x, task, admitted=admit(x, task, event.epoch))


def on_last_words(x: Execution, task: TaskId, _event: LastWordsRead) -> None:
    """Admit it as it is recorded now. If somebody has asked for a restart meanwhile, this is still to be done."""
    given = x.runs.pop(task)
    _release_or_condemn(x, task, admitted=admit_as_recorded(x, task, given.epoch, read_to=given.read_to))
    if x.state_of(task) is RunState.WAITING:
        _restarted_if_asked(x, x.runs[task])


def _release_or_condemn(x: Execution, task: TaskId, *, admitted: bool) -> None:
    """Release what was not admitted, and fail what has ended its last process."""
    if not admitted:
        x.release_stopped(task)
    elif task in x.suspects.condemned:
        x.suspects.condemned.discard(task)
        x.close(x.runs[task], TaskState.FAILED)


def on_given_back(x: Execution, task: TaskId, event: TasksGiven) -> None:
    """The task starts again when it has stopped."""
    x.keep(replaced(x.runs[task], state=RunState.RESTARTING, epoch=event.epoch, revoked=False))


def on_given_again(x: Execution, task: TaskId, _event: TasksGiven) -> None:
    """The task is already here, and nobody waits for its end any more."""
    if x.runs[task].revoked:
        x.keep(replaced(x.runs[task], revoked=False, give_up_ms=None))


# ---- revoked


def on_revoked_unknown(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    x.release_stopped(task)


def on_revoked_waiting(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    _give_up_waiting(x, x.runs[task])
    x.release_stopped(task)


def _give_up_waiting(x: Execution, run: TaskRun) -> None:
    """Nothing was started, so nothing is written, unless others may wait for the task's checkpoint, or its last attempt
    still seems to run. While its last process may have more to say, it is not known what to remember.
    """
    if x.last_words.forget(run.task):
        return
    last = x.status.tasks.get(run.task)
    seems_to_run_here = last is not None and last.worker == x.settings.worker and is_said_to_run(last)
    if run.claim is None and not seems_to_run_here:
        x.remember_stopped(run)
    else:
        x.write_stopped(run, ended_at_ms=None)


def on_revoked(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """An attached attempt is stopped. A detached one is left to the task's next worker, which adopts it; a driver also
    if there is no other worker yet.
    """
    run = x.runs[task]
    if not run.detached:
        _revoke(x, task)
        x.stop(task, RunState.STOPPING, event.reason)
    elif is_driver(run.handle):
        x.let_go(task)
    else:
        _leave_behind(x, task, event)


def _leave_behind(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    if event.for_good:
        x.keep(replaced(x.runs[task], state=RunState.LEAVING, revoked=True, give_up_ms=x.now + LAST_WORDS_MS))
        end_unless_others_stay(x, task)
    else:
        x.let_go(task)


def on_revoked_taking_over(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    """Nothing has been done here, so the last record of the task is still true."""
    x.let_go(task)


def end_unless_others_stay(x: Execution, task: TaskId) -> None:
    """Leave a detached task to the workers that stay. If none stays, end it."""
    stay = orphan_queries.others_stay(x)
    if stay:
        x.let_go(task)
    elif stay is False:
        x.stop(task, RunState.STOPPING, "no worker stays in the group")


def on_leaving_timed_out(x: Execution, task: TaskId, _event: TimerFired) -> None:
    """The topic can't be written or read, so it is unknown whether others stay: end nothing."""
    x.let_go(task)


def on_topics_leaving(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if x.jobs.work_of(task) is None:
        on_topics(x, task, event)
    else:
        end_unless_others_stay(x, task)


def on_revoked_timed_out(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """If that was its last attempt, wait until it has stopped and failed: its next worker would try it once more."""
    if x.runs[task].may_try_again or x.runs[task].detached:
        on_revoked_restarting(x, task, event)
    else:
        _revoke(x, task)


def on_revoked_restarting(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """The attempt has to end in any case: no worker will continue it."""
    if x.runs[task].detached:
        _let_others_end(x, task, event)
        return
    _revoke(x, task)
    x.stop(task, RunState.STOPPING, event.reason)


def on_revoked_stopping(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    if x.runs[task].detached:
        _let_others_end(x, task, event)
    else:
        _revoke(x, task)


def _let_others_end(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """Release it without waiting for its server, which may be away for long, while the whole group waits for revoked
    tasks. The task's record says that the query lives on, so the task's next worker ends it first. If no worker is to
    have the task, this one ends it, beside its membership.
    """
    last = x.status.tasks.get(task)
    _leave_behind(x, task, event)
    if task not in x.runs and last is not None and last.lives_on and x.jobs.work_of(task) is None:
        x.do(EndOrphan(status=last))


def _revoke(x: Execution, task: TaskId) -> TaskRun:
    run = x.keep(replaced(x.runs[task], revoked=True))
    x.stopped_running += run.taken_slots > 0 and run.began_ms is not None
    return run


def on_revoked_ended(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    """Its last record is being written: wait a while for that."""
    run = x.keep(replaced(x.runs[task], revoked=True))
    x.keep(replaced(x.runs[task], give_up_ms=x.give_up_ms(run)))


def on_revoked_publishing(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """A planner that plans at intervals has no last record to wait for."""
    run = x.runs[task]
    if not run.plans_again:
        on_revoked_ended(x, task, event)
        return
    x.do(GiveUpWriting(task=task))
    x.write_stopped(run, ended_at_ms=None)
    x.release_stopped(task)


# ---- a round


def on_epoch(x: Execution, task: TaskId, event: EpochAdvanced) -> None:
    x.keep(replaced(x.runs[task], epoch=event.epoch))


def on_epoch_waiting(x: Execution, task: TaskId, event: EpochAdvanced) -> None:
    run = x.runs[task]
    kept = not run.wait_written and run.epoch < event.epoch
    mistakable = kept and says_that_it_was_released(x.status.tasks.get(task), x.settings.worker)
    x.keep(replaced(x.runs[task], epoch=event.epoch))
    if mistakable and x.waits_said < _MOST_SAID:
        x.waits_said += 1
        x.write_waiting(task)


def on_epoch_closing(x: Execution, task: TaskId, event: EpochAdvanced) -> None:
    run = x.runs[task]
    if run.epoch < event.epoch:
        x.write_end(replaced(run, epoch=event.epoch))


# ---- what is to run


def on_topics_waiting(x: Execution, task: TaskId, _event: TopicsRead | None = None) -> None:
    """Release a waiting task that is no longer to run, and admit it again if its work has changed."""
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work):
        if task in x.last_words:
            return  # it is admitted again when they are read
        if x.jobs.is_paused(task.job):
            _admit_anew(x, run)
        else:
            _keep_under(x, _restarted_if_asked(x, run))
        return
    del x.runs[task]
    if work is not None and admit(x, task, run.epoch):
        return
    if run.wait_written or task.job in x.jobs.jobs:  # otherwise its job is removed, and there is no record to replace
        x.write_stopped(run, ended_at_ms=None)
    x.release_stopped(task)


def on_topics_paused(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work) and x.jobs.is_paused(task.job):
        _keep_under(x, _restarted_if_asked(x, run))
    else:
        _admit_anew(x, _restarted_if_asked(x, run))


def _admit_anew(x: Execution, run: TaskRun) -> None:
    """Admit it again under the present definition: it waits, is paused, or is released."""
    _give_up_waiting(x, run)
    del x.runs[run.task]
    if not admit(x, run.task, run.epoch):
        x.release_stopped(run.task)


def _restarted_if_asked(x: Execution, run: TaskRun) -> TaskRun:
    """If somebody has asked for a restart, it no longer waits for its next attempt, and gets all its retries back."""
    if x.jobs.restart_since(run.task, run.read_to) is None:
        return run
    return x.keep(replaced(run.with_all_retries(), read_to=x.jobs.offset, not_before_ms=0, retry_at_ms=None))


def on_topics(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    """Stop what is no longer to run, even if it is detached; restart what has changed."""
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is None:
        x.stop(task, RunState.STOPPING, "it is no longer configured")
    elif not run.is_of(work):
        _restart(x, run, "its configuration has changed")
    elif x.jobs.is_paused(task.job):
        _restart(x, run, "its job is paused")
    elif (asked := x.jobs.restart_since(task, run.read_to)) is not None:
        _restart(x, x.keep(run.with_all_retries()), asked.in_words())
    else:
        _keep_under(x, run)


def _restart(x: Execution, run: TaskRun, reason: str) -> None:
    """Stop it to start again, unless the membership waits for its release anyway."""
    x.stop(run.task, RunState.STOPPING if run.revoked else RunState.RESTARTING, reason)


def _keep_under(x: Execution, run: TaskRun) -> None:
    """Continue under a definition that may have another time limit, other retries or another interval."""
    work = x.jobs.work_of(run.task)
    if work is None or run.work.definition is work.definition:
        return
    run = run.under(work, now_ms=x.now, wall_ms=x.wall)
    plan = x.jobs.plan_of(run.task.job)
    if run.task.is_planner and (plan is None or not plan.is_of(work.definition)):
        run = replaced(run, not_before_ms=0, retry_at_ms=None)
    x.runs[run.task] = run


# ---- what has failed for good


def on_revoked_failed(x: Execution, task: TaskId, _event: TasksRevoked | FailedLetGo) -> None:
    x.release_stopped(task)


def on_topics_failed(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    """If somebody has asked for another try, the task starts here, and this is written: the leader need not look for a
    place for it.

    Compare the number of the attempt, because the topic may not have the failure yet.
    """
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work):
        last = x.status.tasks.get(task)
        if last is None or not last.is_of(work.definition.run_key, work.fingerprint) or last.attempt <= run.attempt:
            x.runs[task] = replaced(run, work=work)
            return
    del x.runs[task]
    if not admit(x, task, run.epoch):
        x.release_stopped(task)
        return
    again = x.runs[task]
    waits = again.state is RunState.WAITING and task not in x.last_words
    if waits and not again.wait_written and again.is_of(run.work):
        x.write_waiting(task)


# ---- its turn


def on_slot_free(x: Execution, task: TaskId, _event: SlotFree) -> None:
    run = x.runs[task]
    if ended_elsewhere(run, x.status.tasks):
        x.release_stopped(task)
        return
    slots = x.runs.share_of(run, slots=x.slots)
    if slots < run.work.slots:
        x.do(Inform(message=f"task {run.label} wants {run.work.slots} slots, and gets {slots} of {x.slots}"))
    x.runs[task] = run = run.start(slots, alone=x.suspects.starts_alone(run, x.turn, x.runs, x.learners.with_runner))
    x.suspects.started(run, x.turn, now_ms=x.now)
    if run.deaths and run.runs_on:  # others try no suspects meanwhile, however long its server keeps it waiting
        x.do(WriteStatus(status=run.status(TaskState.PENDING, x.settings.worker, begins_ms=x.wall)))
    x.do(StartAttempt(run=run))


def on_room_wanted(x: Execution, task: TaskId, _event: RoomWanted) -> None:
    """If it was to be acquitted as soon as something begins beside it, it is now: otherwise two would stop each other
    for ever.
    """
    x.keep(x.suspects.after_trial(x.runs[task], now_ms=x.now))
    x.stop(task, RunState.RESTARTING, "Spark or its process has ended under another task, which is tried alone")
