"""What is written for an operation, as the topics stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.presence import present
from airflow_provider.ledger.progress import job_progress, needs_running
from airflow_provider.ledger.retrying import to_try_again
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.ledger.task_places import effective_status
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.operations.operations import (
    ALTERABLE,
    AlterJob,
    HaltJob,
    JobOperation,
    NoJobError,
    Operation,
    OperationError,
    Outcome,
    Rebalance,
    RestartJob,
    ResumeJob,
    SetLogLevel,
    StopTasks,
)
from airflow_provider.protocol.model import PLANNER_INDEX, TaskId, planner_of
from airflow_provider.records import (
    ALL_WORKERS,
    GROUP_KEY,
    REBALANCE_KEY,
    ActionEvent,
    Halt,
    HaltRecord,
    JobDefinition,
    LevelsRecord,
    LogLevel,
    RebalanceRecord,
    RestartRecord,
    TaskHaltRecord,
    TaskState,
    TaskStatus,
    halt_key,
    halt_task_key,
    job_key,
    levels_key,
    restart_key,
)
from airflow_provider.records.log_levels import MOST_LOGGERS, is_logger

_WORDS: Final = {Halt.PAUSED: "pause", Halt.STOPPED: "stop"}
_MOST_NAMED: Final = 20
_MOST_SAID: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be written, all of it or nothing, and what to say then.

    :param jobs: into the jobs topic: a record's JSON form by its key; None deletes it
    :param tasks: new words about tasks
    :param event: who has done it; None: nothing is done
    :param about: the event's key
    """

    outcome: Outcome
    about: str = ""
    jobs: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    tasks: Sequence[TaskStatus] = ()
    event: ActionEvent | None = None


def decide(operation: Operation, jobs: JobsSnapshot, status: StatusSnapshot, *, by: str, at_ms: int) -> Decision:
    """What is to be written for it.

    :param by: who asks: ``user@host``, a DAG's task, or the user of a page
    :param at_ms: wall clock, milliseconds since 1970
    :raises OperationError: if it can't be done
    """
    if isinstance(operation, SetLogLevel):
        return decide_level(operation, jobs, by=by, at_ms=at_ms)
    if isinstance(operation, Rebalance):
        return decide_rebalance(status, by=by, at_ms=at_ms)
    definition = jobs.jobs.get(operation.job)
    if definition is None:
        raise NoJobError(operation.job)
    return replace(_decide(operation, definition, jobs, status, by=by, at_ms=at_ms), about=job_key(operation.job))


def _decide(
    operation: JobOperation,
    definition: JobDefinition,
    jobs: JobsSnapshot,
    status: StatusSnapshot,
    *,
    by: str,
    at_ms: int,
) -> Decision:
    match operation:
        case HaltJob():
            return _halt(operation, jobs, status, by=by, at_ms=at_ms)
        case ResumeJob():
            return _resume(operation, jobs, by=by, at_ms=at_ms)
        case StopTasks():
            return _stop_tasks(operation, definition, jobs, status, by=by, at_ms=at_ms)
        case RestartJob():
            return _restart(operation, definition, jobs, status, by=by, at_ms=at_ms)
        case AlterJob():
            return _alter(operation, definition, by=by, at_ms=at_ms)


def decide_rebalance(status: StatusSnapshot, *, by: str, at_ms: int) -> Decision:
    """The same for a round that somebody wants now."""
    if not present(status):
        raise OperationError("no worker is in the group: there is nobody to rebalance")
    if not isinstance(status.group, ClassicRecord):
        raise OperationError(
            "this is a declarative group (group.protocol=connect): its coordinator moves it to its target as soon as"
            " anything changes, and there are no rounds to ask for. How long lost tasks wait for their worker, cospark"
            " groups configure says"
        )
    record = RebalanceRecord(by=by, at_ms=at_ms)
    return Decision(
        outcome=Outcome(subject=GROUP_KEY, changed=True),
        about=REBALANCE_KEY,
        jobs={REBALANCE_KEY: record.to_json()},
        event=ActionEvent(action="rebalance", subject=GROUP_KEY, by=by, at_ms=at_ms),
    )


def decide_level(operation: SetLogLevel, jobs: JobsSnapshot, *, by: str, at_ms: int) -> Decision:
    """The same for the level of a logger."""
    logger, worker = operation.logger, operation.worker or ALL_WORKERS
    if not is_logger(logger):
        raise OperationError(f"logger {logger!r}: must be named as in logging.getLogger(...), and not the root's")
    known = jobs.levels.get(worker)
    before: dict[str, LogLevel] = {} if known is None else dict(known.levels)
    after = {name: level for name, level in before.items() if name != logger}
    if operation.level is not None:
        after[logger] = operation.level
    if after == before:
        return Decision(outcome=Outcome(subject=logger, changed=False))
    if len(after) > MOST_LOGGERS:
        raise OperationError(
            f"logger {logger!r}: {MOST_LOGGERS} have a level already; reset some, or name a parent of them"
        )
    record = LevelsRecord(worker=worker, levels=after, by=by, at_ms=at_ms)
    level = "reset" if operation.level is None else operation.level.value
    return Decision(
        outcome=Outcome(subject=logger, changed=True),
        about=levels_key(worker),
        jobs={levels_key(worker): record.to_json() if after else None},
        event=ActionEvent(
            action="set level",
            subject=logger,
            by=by,
            at_ms=at_ms,
            details=f"{level}, in {operation.worker or 'all workers'}",
        ),
    )


def altered(operation: AlterJob, definition: JobDefinition) -> JobDefinition:
    """The definition with these changes; the same one if there are none.

    :raises OperationError: for what can't be altered
    :raises JobError: for values that can't be accepted
    """
    unknown = sorted(operation.settings.keys() - set(ALTERABLE))
    if unknown:
        raise OperationError(
            f"job {operation.job!r}: {', '.join(unknown)} can't be altered while it runs; config and"
            f" {', '.join(ALTERABLE)} can be; for anything else submit it"
        )
    gone = {key for key, value in operation.config.items() if value is None}
    config = {key: value for key, value in {**definition.config, **operation.config}.items() if key not in gone}
    changed = replace(definition, config=config, **operation.settings)  # type: ignore[arg-type]  # the fields are known
    if changed.fingerprint == definition.fingerprint:
        return changed
    return replace(changed, basis=definition.tasks_basis)


def _alter(operation: AlterJob, definition: JobDefinition, *, by: str, at_ms: int) -> Decision:
    job, changed = operation.job, altered(operation, definition)
    if changed.same_as(definition):
        return Decision(outcome=Outcome(subject=job, changed=False))
    names = ", ".join([*sorted(operation.config), *sorted(operation.settings)][:_MOST_NAMED])
    return Decision(
        outcome=Outcome(subject=job, changed=True),
        jobs={job_key(job): changed.to_json()},
        event=ActionEvent(action="alter", subject=job, by=by, at_ms=at_ms, details=names[:_MOST_SAID]),
    )


def _halt(operation: HaltJob, jobs: JobsSnapshot, status: StatusSnapshot, *, by: str, at_ms: int) -> Decision:
    job, now = operation.job, jobs.halt_of(operation.job)
    if now is not None and now.halt is operation.halt:
        return Decision(outcome=Outcome(subject=job, changed=False))
    progress = job_progress(job, jobs, status)
    if progress is not None and progress.complete:
        raise OperationError(f"job {job!r} has nothing left to run: there is nothing to {_WORDS[operation.halt]}")
    record = HaltRecord(job=job, halt=operation.halt, by=by, at_ms=at_ms)
    return Decision(
        outcome=Outcome(subject=job, changed=True),
        jobs={halt_key(job): record.to_json()},
        event=ActionEvent(action=_WORDS[operation.halt], subject=job, by=by, at_ms=at_ms),
    )


def _resume(operation: ResumeJob, jobs: JobsSnapshot, *, by: str, at_ms: int) -> Decision:
    job = operation.job
    if jobs.halt_of(job) is None:
        return Decision(outcome=Outcome(subject=job, changed=False))
    return Decision(
        outcome=Outcome(subject=job, changed=True),
        jobs={halt_key(job): None},
        event=ActionEvent(action="resume", subject=job, by=by, at_ms=at_ms),
    )


def _stop_tasks(
    operation: StopTasks,
    definition: JobDefinition,
    jobs: JobsSnapshot,
    status: StatusSnapshot,
    *,
    by: str,
    at_ms: int,
) -> Decision:
    job = operation.job
    if PLANNER_INDEX in operation.tasks:
        raise OperationError(f"job {job!r}: its planner can't be stopped alone; stop the job")
    asked = _named_tasks(job, operation.tasks, jobs)
    for task in asked:
        last = effective_status(task, jobs, status)
        if last is not None and last.state.final:
            raise OperationError(f"{task} has {last.state.value} already: there is nothing to stop")
    stopped = tuple(task for task in asked if jobs.halt_of_task(task) is None)
    if not stopped:
        return Decision(outcome=Outcome(subject=job, changed=False))
    return Decision(
        outcome=Outcome(subject=job, changed=True, stopped=stopped),
        jobs={
            halt_task_key(task): TaskHaltRecord(
                job=job,
                index=task.index,
                run_key=definition.run_key,
                fingerprint=work.fingerprint,
                by=by,
                at_ms=at_ms,
            ).to_json()
            for task in stopped
            if (work := jobs.planned_work(task)) is not None
        },
        event=ActionEvent(
            action="stop tasks", subject=job, by=by, at_ms=at_ms, details=f"tasks: {_indexes(operation.tasks)}"
        ),
    )


def _restart(
    operation: RestartJob,
    definition: JobDefinition,
    jobs: JobsSnapshot,
    status: StatusSnapshot,
    *,
    by: str,
    at_ms: int,
) -> Decision:
    job = operation.job
    asked = _asked_for(operation, jobs)
    again = to_try_again(definition, jobs.plans.get(job), status.tasks, operation.tasks)
    retried = {word.task for word in again}
    alive = [task for task in asked if task not in retried and needs_running(task, jobs, status.tasks)]
    restarted = [] if operation.only_failed else [task for task in alive if _is_somewhere(task, jobs, status)]
    resumed = [] if operation.only_failed else [task for task in asked if jobs.halt_of_task(task) is not None]
    finished = () if operation.tasks is None else tuple(task for task in asked if _has_finished(task, jobs, status))
    outcome = Outcome(
        subject=job,
        changed=bool(restarted or retried or resumed),
        restarted=tuple(restarted),
        retried=tuple(sorted(retried)),
        resumed=tuple(resumed),
        finished=finished,
    )
    if not outcome.changed:
        return Decision(outcome=outcome)
    anew = [*restarted, *resumed]  # what has not stopped yet starts anew, too
    indexes = [None] if operation.tasks is None else [task.index for task in anew]
    records = [RestartRecord(job=job, index=index, by=by, at_ms=at_ms) for index in indexes if anew]
    return Decision(
        outcome=outcome,
        jobs={
            **{restart_key(job, record.index): record.to_json() for record in records},
            **{halt_task_key(task): None for task in resumed},
        },
        tasks=again,
        event=ActionEvent(action="restart", subject=job, by=by, at_ms=at_ms, details=_in_words(operation, outcome)),
    )


def _asked_for(operation: RestartJob, jobs: JobsSnapshot) -> list[TaskId]:
    """:raises OperationError: naming what there is not"""
    if operation.tasks is not None:
        return _named_tasks(operation.job, operation.tasks, jobs)
    plan = jobs.plan_of(operation.job)
    there = 0 if plan is None else len(plan.configs)
    return [planner_of(operation.job), *(TaskId(operation.job, index) for index in range(there))]


def _named_tasks(job: str, indexes: Set[int], jobs: JobsSnapshot) -> list[TaskId]:
    """:raises OperationError: naming what there is not"""
    plan = jobs.plan_of(job)
    there = 0 if plan is None else len(plan.configs)
    unknown = sorted(index for index in indexes if not PLANNER_INDEX <= index < there)
    if unknown:
        has = f"has {there} tasks, from 0 on" if plan is not None else "has no plan yet"
        raise OperationError(f"job {job!r} {has}; there is none of index {', '.join(map(str, unknown))}")
    return [TaskId(job, index) for index in sorted(indexes)]


def _is_somewhere(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    """Whether a worker has it. What nobody has starts anew anyway."""
    last = effective_status(task, jobs, status)
    return last is not None and last.state in (TaskState.RUNNING, TaskState.PENDING)


def _has_finished(task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
    last = effective_status(task, jobs, status)
    return last is not None and last.state is TaskState.FINISHED


def _in_words(operation: RestartJob, outcome: Outcome) -> str:
    """What is started anew, for the timeline."""
    which = "all" if operation.tasks is None else _indexes(operation.tasks)
    again = f", {len(outcome.resumed)} run again" if outcome.resumed else ""
    failed = f"{len(outcome.retried)} tried again after a failure"
    return f"tasks: {which}; {len(outcome.restarted)} started anew, {failed}{again}"


def _indexes(tasks: Set[int]) -> str:
    return ", ".join(map(str, sorted(tasks)[:_MOST_NAMED]))
