"""What the membership and the topics say of the tasks that a worker has."""

from __future__ import annotations

from typing import Final

from airflow_provider.execution import orphans
from airflow_provider.execution.commands import EndOrphan, GiveUpWriting, Inform, StartAttempt
from airflow_provider.execution.events import (
    EpochAdvanced,
    FailedLetGo,
    SlotFree,
    TasksGiven,
    TasksRevoked,
    TimerFired,
    TopicsRead,
)
from airflow_provider.execution.state import LAST_WORDS_MS, Execution
from airflow_provider.ledger.presence import is_same_process, stay
from airflow_provider.protocol.model import TaskId
from airflow_provider.protocol.replacing import replaced
from airflow_provider.records import WorkerPhase
from airflow_provider.runs.runs import RunState, TaskRun, ended_elsewhere, says_that_it_was_released

_MOST_SAID: Final = 100
"""Of more waiting tasks than these nothing is said in one round: thousands of words would hold up the whole group."""


# ---- given


def on_given(x: Execution, task: TaskId, event: TasksGiven) -> None:
    if not x.admit(task, event.epoch):
        x.release_stopped(task)


def on_given_back(x: Execution, task: TaskId, event: TasksGiven) -> None:
    """It starts again when it has stopped."""
    x.keep(replaced(x.runs[task], state=RunState.RESTARTING, epoch=event.epoch, revoked=False))


def on_given_again(x: Execution, task: TaskId, _event: TasksGiven) -> None:
    """It is here, and nobody waits for its end any more."""
    if x.runs[task].revoked:
        x.keep(replaced(x.runs[task], revoked=False, give_up_ms=None))


# ---- revoked


def on_revoked_unknown(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    x.release_stopped(task)


def on_revoked_waiting(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    _give_up_waiting(x, x.runs[task])
    x.release_stopped(task)


def _give_up_waiting(x: Execution, run: TaskRun) -> None:
    """Nothing was started, so nothing is said; but others may wait for its checkpoint."""
    if run.claim is None:
        x.remember_stopped(run)
    else:
        x.write_stopped(run, ended_at_ms=None)


def on_revoked(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """What outlives this process is not ended: the worker that has the task next goes on with it."""
    run = x.runs[task]
    if not run.detached:
        _revoke(x, task)
        x.stop(task, RunState.STOPPING, event.reason)
    else:
        _leave_behind(x, task, event)


def _leave_behind(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    if event.for_good:
        x.keep(replaced(x.runs[task], state=RunState.LEAVING, revoked=True, give_up_ms=x.now + LAST_WORDS_MS))
        look_who_stays(x, task)
    else:
        x.let_go(task)


def on_revoked_taking_over(x: Execution, task: TaskId, _event: TasksRevoked) -> None:
    """Nothing has been done about it here; so its last record is as true as it was."""
    x.let_go(task)


def look_who_stays(x: Execution, task: TaskId) -> None:
    """Where nobody would go on with it, it is ended.

    Of two who leave at the same time each first says so, and then looks: so at least one sees that the other leaves,
    too. Who sees nobody that stays also ends what others have let go of.
    """
    me, said = x.settings.worker, x.status.workers.get(x.settings.worker)
    if said is None or said.state is not WorkerPhase.STOPPING or not is_same_process(said.process, x.settings.process):
        return
    if stay(x.status, wall_ms=x.wall) - {me}:
        x.let_go(task)
        return
    x.stop(task, RunState.STOPPING, "no worker stays in the group")
    orphans.end_all(x)


def on_nobody_said_who_stays(x: Execution, task: TaskId, _event: TimerFired) -> None:
    """The topic can't be written or read: then nothing is ended that others may count on."""
    x.let_go(task)


def on_topics_leaving(x: Execution, task: TaskId, event: TopicsRead) -> None:
    if x.jobs.work_of(task) is None:
        on_topics(x, task, event)
    else:
        look_who_stays(x, task)


def on_revoked_timed_out(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """If that was its last attempt, it fails as soon as it has stopped: the next worker would try it once too often."""
    if x.runs[task].may_try_again or x.runs[task].detached:
        on_revoked_restarting(x, task, event)
    else:
        _revoke(x, task)


def on_revoked_restarting(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """It is to end in any case: nobody goes on with it."""
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
    """Its server may be away for long, and the whole group waits for what is revoked. Its record says that it lives on:
    so who has the task next ends it first, and if nobody is to have it, that is done beside the membership.
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
    """Its last record is on its way, and waited for a while."""
    run = x.keep(replaced(x.runs[task], revoked=True))
    x.keep(replaced(x.runs[task], give_up_ms=x.give_up_ms(run)))


def on_revoked_publishing(x: Execution, task: TaskId, event: TasksRevoked) -> None:
    """A planner that would plan again has no last word to wait for."""
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
        x.say_that_it_waits(task)


def on_epoch_closing(x: Execution, task: TaskId, event: EpochAdvanced) -> None:
    run = x.runs[task]
    if run.epoch < event.epoch:
        x.write_end(replaced(run, epoch=event.epoch))


# ---- what is to run


def on_topics_waiting(x: Execution, task: TaskId, _event: TopicsRead | None = None) -> None:
    """What waits for something that is no longer to run goes, or waits for what is."""
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work):
        if x.jobs.is_paused(task.job):
            _admit_anew(x, run)
        else:
            _go_on_under(x, _as_asked_for(x, run))
        return
    del x.runs[task]
    if work is not None and x.admit(task, run.epoch):
        return
    if run.wait_written or task.job in x.jobs.jobs:  # else its job is gone, and nothing was said of it
        x.write_stopped(run, ended_at_ms=None)
    x.release_stopped(task)


def on_topics_paused(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work) and x.jobs.is_paused(task.job):
        _go_on_under(x, _as_asked_for(x, run))
    else:
        _admit_anew(x, _as_asked_for(x, run))


def _admit_anew(x: Execution, run: TaskRun) -> None:
    """It waits, as what is to run is now; or it is paused from now on, or has to go."""
    _give_up_waiting(x, run)
    del x.runs[run.task]
    if not x.admit(run.task, run.epoch):
        x.release_stopped(run.task)


def _as_asked_for(x: Execution, run: TaskRun) -> TaskRun:
    """What somebody wants to start anew waits no longer for its next attempt, and has all its retries."""
    if x.jobs.restart_since(run.task, run.read_to) is None:
        return run
    return x.keep(replaced(run.with_all_retries(), read_to=x.jobs.offset, not_before_ms=0, retry_at_ms=None))


def on_topics(x: Execution, task: TaskId, _event: TopicsRead) -> None:
    """What is no longer to run is ended, even where somebody could go on with it."""
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
        _go_on_under(x, run)


def _restart(x: Execution, run: TaskRun, reason: str) -> None:
    """Unless the membership waits for its end anyway."""
    x.stop(run.task, RunState.STOPPING if run.revoked else RunState.RESTARTING, reason)


def _go_on_under(x: Execution, run: TaskRun) -> None:
    """The same work, by a definition that may have another time limit, other retries or another interval."""
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
    """What somebody wants to be tried again starts here, and is said to: its leader need not look for a place for it.

    By the number of the attempt, for the topic may still say what was true before the task failed.
    """
    run = x.runs[task]
    work = x.jobs.work_of(task)
    if work is not None and run.is_of(work):
        last = x.status.tasks.get(task)
        if last is None or not last.is_of(work.definition.run_key, work.fingerprint) or last.attempt <= run.attempt:
            x.runs[task] = replaced(run, work=work)
            return
    del x.runs[task]
    if not x.admit(task, run.epoch):
        x.release_stopped(task)
        return
    again = x.runs[task]
    if again.state is RunState.WAITING and not again.wait_written and again.is_of(run.work):
        x.say_that_it_waits(task)


# ---- its turn


def on_slot_free(x: Execution, task: TaskId, _event: SlotFree) -> None:
    run = x.runs[task]
    if ended_elsewhere(run, x.status.tasks):
        x.release_stopped(task)
        return
    slots = x.runs.share_of(run, slots=x.slots)
    if slots < run.work.slots:
        x.do(Inform(message=f"task {run.label} wants {run.work.slots} slots, and is given {slots} of {x.slots}"))
    x.runs[task] = run = run.start(slots)
    x.do(StartAttempt(run=run))
