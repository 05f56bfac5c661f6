"""How a task reacts to the events of its attempt, and of the records with which it ends."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider.spark.runner import (
    QueryAdopted,
    QueryCleared,
    QueryDetached,
    QueryStarted,
    QueryUnreachable,
    SparkAbsent,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskStarted,
)
from airflow_provider.state.blame.evidence import LATELY_MS
from airflow_provider.state.blame.tried_elsewhere import HERE_AFTER_MS
from airflow_provider.state.records import (
    JobError,
    PlanRecord,
    TaskFailure,
    TaskKind,
    TaskState,
    TaskStatus,
    WrittenAsset,
    is_driver,
)
from airflow_provider.state.views.task_progress.replanning import in_known_order
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks.admission import admit
from airflow_provider.worker.tasks.assigned import on_topics, on_topics_waiting
from airflow_provider.worker.tasks.commands import GiveUpWriting, LetBegin, WritePlan
from airflow_provider.worker.tasks.events import (
    EndRefused,
    EndWritten,
    Event,
    PlanRefused,
    PlanWritten,
    StartWritten,
    TimerFired,
    TopicsRead,
)
from airflow_provider.worker.tasks.runs.known_faults import IN_A_ROW_MS
from airflow_provider.worker.tasks.runs.retry_pauses import conflict_pause_ms, retry_pause_ms, room_pause_ms
from airflow_provider.worker.tasks.runs.run_state import RunState
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.runs.stream_health import forgiven
from airflow_provider.worker.tasks.state import Execution, ImpossibleEventError

_LONG_CONFLICT_MS: Final = 600_000
"""A predecessor should be over by then: people are warned of another writer."""
_WARN_EACH: Final = 10
"""Conflicts, or tries in vain: with the longest pause, about ten minutes."""

# ---- it runs


def on_began(x: Execution, task: TaskId, event: TaskStarted) -> None:
    run = x.keep(replaced(x.runs[task], started_at_ms=x.wall, handle=event.handle))
    if run.state is RunState.STARTED:  # otherwise it was told to stop before it began
        x.write_start(run)


def on_start_written(x: Execution, task: TaskId, event: StartWritten) -> None:
    run = x.runs[task]
    if event.number != run.number or not run.waits_to_begin:
        return
    if run.handle is None:
        _let_begin(x, run)
    else:
        let_begin_when_recorded(x, task)


def _let_begin(x: Execution, run: TaskRun) -> None:
    x.keep(replaced(run, let_begin=True, began_ms=x.now))
    x.do(LetBegin(task=run.task))


def let_begin_when_recorded(x: Execution, task: TaskId) -> None:
    """An attempt with a handle begins when this has been read back from the topic. So if two workers start the same
    task, at least one of them reads the other's record before it begins. An outdated record is never the one that is
    read.
    """
    run, last = x.runs[task], x.status.tasks.get(task)
    if not run.waits_to_be_read or last is None:
        return
    if (last.worker, last.attempt, last.handle) != (x.settings.worker, run.attempt, run.handle):
        return
    if task in x.status.unended:
        x.stop(task, RunState.RESTARTING, "its earlier query may still be running")
    else:
        _let_begin(x, run)


def on_topics_started(x: Execution, task: TaskId, event: TopicsRead) -> None:
    on_topics(x, task, event)
    if x.runs[task].waits_to_be_read:
        let_begin_when_recorded(x, task)


def on_query_started(x: Execution, task: TaskId, _event: QueryStarted) -> None:
    x.write(x.keep(x.runs[task].streaming(x.now)), TaskState.RUNNING)


def on_detached(x: Execution, task: TaskId, event: QueryDetached) -> None:
    run = x.watch(replaced(_watched(x, x.runs[task], event.handle), detached=True, otherwise=event.otherwise))
    if isinstance(event.otherwise, SparkLost):  # who ran there is known now, and not when its server answers again
        x.suspects.wait_after(x.runs, event.otherwise.spark, now_ms=x.now)
    x.write(x.keep(run), TaskState.RUNNING)


def on_detached_stopping(x: Execution, task: TaskId, event: QueryDetached) -> None:
    """It was told to stop meanwhile. If it only moves, its driver goes on: it can't begin again where it was."""
    on_detached(x, task, event)
    run, work = x.runs[task], x.jobs.work_of(task)
    if is_driver(event.handle) and run.revoked and run.state is RunState.STOPPING and work is not None:
        x.let_go(task)  # if its work has changed, its next worker ends it
    else:
        x.stop(task, run.state, "it was told to stop")


def _watched(x: Execution, run: TaskRun, handle: Any) -> TaskRun:
    """With the handle by which it is watched: of a query, which is a stream, or of a driver, which says nothing of what
    it does.
    """
    run = replaced(run, handle=handle)
    if is_driver(handle):
        return run
    run = run.streaming(x.now)
    return replaced(run, liveness=run.liveness.unseen()) if x.suspects.time.is_silent(detached=True) else run


# ---- earlier queries


def on_adopted(x: Execution, task: TaskId, event: QueryAdopted) -> None:
    """Write a record only if something has changed: a process may get back a task that it has handed over."""
    run = x.runs[task]
    goes_on = run.start(x.runs.share_of(run, slots=x.slots), alone=run.alone)
    claim = x.claims.of(run.work)
    adopted = replaced(_watched(x, goes_on, event.handle), detached=True, claim=claim, adopted_ms=x.now)
    x.keep(adopted)
    x.idle_since_ms = x.now
    last = x.status.tasks.get(task)
    told = adopted.status(TaskState.RUNNING, x.settings.worker)
    if last is None or last.state is not TaskState.RUNNING or _who(last) != _who(told):
        x.write(adopted, TaskState.RUNNING)
        x.tell_of(run, "keeps running, and is watched from here", "keep running, and are watched from here")


def on_found(x: Execution, task: TaskId, event: QueryAdopted) -> None:
    """The query that this worker has started, or may have started, is running."""
    found = replaced(_watched(x, x.runs[task], event.handle), otherwise=None)
    x.write(x.keep(found), TaskState.RUNNING)


def _who(status: TaskStatus) -> tuple[object, ...]:
    return status.worker, status.epoch, status.attempt, status.handle, status.claim


def on_cleared(x: Execution, task: TaskId, _event: QueryCleared) -> None:
    """Another attempt may begin."""
    x.wait_for_next(x.runs[task], 0)
    x.claim_again(task)


def on_not_started(x: Execution, task: TaskId, event: QueryCleared) -> None:
    """The query that its attempt may have left behind was never started: the attempt has ended as it has said."""
    match x.runs[task].otherwise:
        case TaskFailed() as failed:
            on_failed(x, task, failed)
        case TaskConflicted() as conflicted:
            on_conflicted(x, task, conflicted)
        case SparkLost() as lost:
            on_spark_lost(x, task, lost)
        case SparkFaltered() as faltered:
            on_spark_faltered(x, task, faltered)
        case _:
            on_cleared(x, task, event)


def on_unreachable(x: Execution, task: TaskId, event: QueryUnreachable) -> None:
    """Nothing is started on a guess."""
    waits = "because its earlier query may still be running (see cospark jobs orphans)"
    why = x.failure(f"it waits, {waits}: {event.why}")
    run = x.keep(replaced(x.runs[task], liveness=x.runs[task].liveness.unseen()))
    x.write(replaced(run, error=why), TaskState.PENDING)  # no attempt has failed, so the error is not kept in the run
    wait = "because their earlier queries may still be running (see cospark jobs orphans)"
    x.warn_of(run, f"waits, {waits}", f"wait, {wait}", x.settings.mask(event.why))


def on_not_ended(x: Execution, task: TaskId, event: QueryUnreachable) -> None:
    """The task was told to stop, and it is not known whether it has stopped."""
    may = "told to stop, and may still be running"
    x.warn_of(x.runs[task], f"was {may}", f"were {may}", x.settings.mask(event.why))


def on_time_over(x: Execution, task: TaskId, _event: TimerFired) -> None:
    """Count it as a failure now, whatever else stops the task before its end."""
    run = x.runs[task]
    limit_ms = run.work.definition.timeout_ms
    assert limit_ms is not None
    reason = f"stopped after task_timeout of {limit_ms / 1000:g} s"
    x.runs[task] = _failed_here(x, run, x.failure(reason))
    x.stop(task, RunState.TIMED_OUT, reason)


# ---- its last event


def on_finished(x: Execution, task: TaskId, event: TaskFinished) -> None:
    run = x.runs[task]
    x.known_faults.finished(task)
    if not task.is_planner:
        x.evidence.went_well()
        wrote = tuple(WrittenAsset(name=name, uri=uri, rows=rows) for name, uri, rows in event.wrote)
        x.close(run, TaskState.FINISHED, event.result, wrote)
    elif run.state is RunState.STOPPING and run.plans_again:
        on_stopped(x, task, event)  # the next worker makes the same plan
    else:
        _publish(x, run, event)


def on_stopped(x: Execution, task: TaskId, _event: Event) -> None:
    run = x.runs[task]
    x.write_stopped(run, ended_at_ms=x.wall)
    x.release_stopped(task)


def on_stopped_to_restart(x: Execution, task: TaskId, _event: Event) -> None:
    """Start it again, if it is still to run."""
    run = x.runs.pop(task)
    x.write_stopped(run, ended_at_ms=x.wall)
    x.suspects.between.waits_again(task)
    if not admit(x, task, run.epoch):
        x.release_stopped(task)


def on_failed(x: Execution, task: TaskId, event: TaskFailed) -> None:
    run = forgiven(x.runs[task], now_ms=x.now)
    failed = _failed_here(x, run, x.failure(event.error, event.traceback))
    if event.retryable:
        _try_again(x, failed)
    else:
        _try_once_more_elsewhere(x, failed)


def _failed_here(x: Execution, run: TaskRun, failure: TaskFailure) -> TaskRun:
    """After a long time without a failure, it is unknown again who is to blame."""
    x.evidence.failed(run.task, failure)
    if run.ran_ms(x.now) >= LATELY_MS:
        run = replaced(run, failed_on=())
    return run.failed_at(x.settings.worker, failure)


def on_conflicted(x: Execution, task: TaskId, event: TaskConflicted) -> None:
    """The task has not failed. It waits until the other writer may be over, and says so."""
    run = forgiven(x.runs[task], now_ms=x.now).in_conflict(x.wall).ended_otherwise_at(x.settings.worker)
    writes_s = run.in_conflict_ms(x.wall) // 1_000
    how_long = f" for {writes_s // 60} min" if writes_s >= 60 else ""
    why = x.failure(
        f"it waits for another writer, which has used its checkpoint or table{how_long}: {event.error}",
        event.traceback,
    )
    if run.in_conflict_ms(x.wall) >= _LONG_CONFLICT_MS and run.conflicts % _WARN_EACH == 0:
        x.warn_of(
            run,
            f"waits for another writer, which has used its checkpoint or table{how_long}",
            "wait for other writers, which have used their checkpoints or tables for long",
            x.failure(event.error).line,
            incident="other writers",
        )
    x.wait_for_next(replaced(run, error=why), conflict_pause_ms(run.conflicts))


def on_timed_out(x: Execution, task: TaskId, _event: Event) -> None:
    """It has stopped after its time limit."""
    _try_again(x, x.runs[task])


def on_spark_lost(x: Execution, task: TaskId, event: SparkLost) -> None:
    run = x.suspects.lost(x.runs, event, now_ms=x.now).ended_otherwise_at(x.settings.worker)
    if run.started_at_ms is None and not run.detached:
        _still_to_come(x, task)
    elif x.suspects.condemns(run):
        x.close(run, TaskState.FAILED)
    else:
        x.wait_for_next(run, 0)
        why = x.failure(event.error).line
        x.warn_of(run, "is to run again", "are to run again", why, incident=f"end of Spark {event.spark}")


def on_spark_faltered(x: Execution, task: TaskId, event: SparkFaltered) -> None:
    run = forgiven(x.runs[task], now_ms=x.now)
    if event.lasts:
        _wait_for_room(x, run, event)
        return
    pause_ms = x.known_faults.pause_ms(run, x.now)
    if pause_ms is None:
        _try_again(x, _failed_here(x, run, x.failure(event.error, event.traceback)))
        return
    why = x.failure(f"a known fault of Spark, which passes: {event.error}", event.traceback)
    x.warn_of(run, "is to run again", "are to run again", why.line)
    x.wait_for_next(replaced(run.ended_otherwise_at(x.settings.worker), died_alone=0, error=why), pause_ms)


def _wait_for_room(x: Execution, run: TaskRun, full: SparkFaltered) -> None:
    """None of the task's code was called. It waits as long as it takes, and says so."""
    times = x.without_room.again(run.task, x.now, counts_ms=IN_A_ROW_MS)
    why = x.failure(f"it waits until its Spark has room for it: {full.error}", full.traceback)
    if times % _WARN_EACH == 1:
        x.warn_of(
            run,
            "waits until its Spark has room for it",
            "wait until their Spark has room for them",
            x.failure(full.error).line,
        )
    x.wait_for_next(replaced(run.ended_otherwise_at(x.settings.worker), error=why), room_pause_ms(run.task, times))


def on_spark_absent(x: Execution, task: TaskId, event: SparkAbsent) -> None:
    x.unable = event.error
    if x.runs[task].started_at_ms is None:
        _still_to_come(x, task)
    else:
        x.wait_for_next(x.runs[task], 0)


def _still_to_come(x: Execution, task: TaskId) -> None:
    x.keep(replaced(x.runs[task], state=RunState.WAITING, began_ms=None))


def _try_again(x: Execution, failed: TaskRun) -> None:
    """Try it again as often as its job says, elsewhere if there is a better place, or here, or on its next worker."""
    if failed.may_try_again and not failed.last_try:
        _wait(x, failed, goes=_has_better_place(x, failed))
    else:
        _try_once_more_elsewhere(x, failed)


def _try_once_more_elsewhere(x: Execution, failed: TaskRun) -> None:
    """It has failed for good, unless this worker may be to blame."""
    last = replaced(failed, last_try=True)
    if failed.last_try or not _has_better_place(x, last):
        x.close(failed, TaskState.FAILED)
    else:
        _wait(x, last, goes=True)


def _wait(x: Execution, failed: TaskRun, *, goes: bool) -> None:
    """:param goes: whether it has a better place"""
    if failed.revoked:
        x.write_stopped(failed, ended_at_ms=x.wall)
        x.release_stopped(failed.task)
        return
    delay_ms = retry_pause_ms(failed.task, failed.work.definition.retry_delay_ms, failed.counted_failures)
    x.wait_for_next(failed, delay_ms)
    if goes:
        x.keep(replaced(x.runs[failed.task], not_before_ms=x.now + max(delay_ms, HERE_AFTER_MS)))


def _has_better_place(x: Execution, failed: TaskRun) -> bool:
    waits = failed.status(TaskState.PENDING, x.settings.worker)
    return x.places.has_better(waits, x.jobs, x.status, now_ms=x.now, wall_ms=x.wall)


# ---- a plan


def _publish(x: Execution, run: TaskRun, event: TaskFinished) -> None:
    definition = run.work.definition
    stateful = definition.kind is TaskKind.STREAMING if event.stateful is None else event.stateful
    try:
        plan = PlanRecord.of(
            definition,
            event.result,
            planned_by=x.settings.worker,
            at_ms=x.wall,
            stateful=stateful,
            config_schema=event.config_schema,
        )
        plan = in_known_order(plan, x.jobs.plans.get(definition.name))
    except JobError as wrong:
        x.close(run.failed(x.failure(str(wrong))), TaskState.FAILED)
        return
    known = x.jobs.plan_of(definition.name)
    run = replaced(run, plan=plan)
    known_already = known is not None and known.is_of(definition) and known.says_the_same(plan)
    if definition.name not in x.jobs.jobs or known_already:
        _planned(x, run)
        return
    number = x.next_number()
    x.runs[run.task] = replaced(run, state=RunState.PUBLISHING, number=number, give_up_ms=x.give_up_ms(run))
    x.do(WritePlan(number=number, task=run.task, plan=plan))


def on_plan_written(x: Execution, task: TaskId, event: PlanWritten) -> None:
    if event.number == x.runs[task].number:
        _planned(x, x.runs[task])


def on_plan_refused(x: Execution, task: TaskId, event: PlanRefused) -> None:
    run = x.runs[task]
    if event.number == run.number:
        advice = "make fewer tasks, or smaller configs"
        x.close(run.failed(x.failure(f"{event.refusal}; {advice}")), TaskState.FAILED)


def _planned(x: Execution, run: TaskRun) -> None:
    definition = run.work.definition
    assert run.plan is not None
    if definition.replan_interval_ms is None:
        x.close(run, TaskState.FINISHED, {"tasks": len(run.plan.configs), "bounded": definition.bounded})
        return
    x.wait_for_next(run.with_all_retries(), definition.replan_interval_ms)
    on_topics_waiting(x, run.task)  # what came while the plan was being written


# ---- an end


def on_end_written(x: Execution, task: TaskId, event: EndWritten) -> None:
    run = x.runs[task]
    if event.number != run.number:
        return
    if x.keeps(run):
        x.rest(run)
    else:
        x.release_finished(task)


def on_end_refused(x: Execution, task: TaskId, event: EndRefused) -> None:
    """Write it again without what made it too large."""
    run = x.runs[task]
    if event.number != run.number:
        return
    if run.end is not None and run.end.cut_short:
        raise ImpossibleEventError(f"task {run.label}: even the short record of its end is refused: {event.refusal}")
    x.write_end(run.cut_short(event.refusal))


def on_given_up(x: Execution, task: TaskId, _event: TimerFired) -> None:
    """The membership waits for a task that has ended, and its last record can't be written: it has to run again."""
    run = x.runs[task]
    x.do(GiveUpWriting(task=task))
    x.write_stopped(run, ended_at_ms=x.wall)
    x.warn_of(
        run,
        "has ended, but its last record could not be written: it will run again",
        "have ended, but their last records could not be written: they will run again",
    )
    x.release_stopped(task)
