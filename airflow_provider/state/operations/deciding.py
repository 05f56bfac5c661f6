"""Decides which records an operation writes, given what is in the topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from airflow_provider.state.operations import notes
from airflow_provider.state.operations.deciding_levels import decide_level
from airflow_provider.state.operations.deciding_tasks import restart, stop_tasks
from airflow_provider.state.operations.decision import Asked, Decision
from airflow_provider.state.operations.operations import (
    ALTERABLE,
    AlterJob,
    HaltJob,
    JobOperation,
    LostUpdateError,
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
from airflow_provider.state.records import (
    GROUP_KEY,
    REBALANCE_KEY,
    Halt,
    HaltRecord,
    JobDefinition,
    RebalanceRecord,
    halt_key,
    job_key,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress

_WORDS: Final = {Halt.PAUSED: "pause", Halt.STOPPED: "stop"}
_MOST_NAMED: Final = 20
_MOST_SAID: Final = 1_000

ValueT = TypeVar("ValueT")


def decide(operation: Operation, jobs: JobsSnapshot, status: StatusSnapshot, *, by: str, at_ms: int) -> Decision:
    """Decide which records the operation writes. The parameters are those of :class:`~.decision.Asked`.

    :raises OperationError: if it can't be done
    """
    asked = Asked(jobs, status, by, at_ms)
    if isinstance(operation, SetLogLevel):
        return decide_level(operation, asked)
    if isinstance(operation, Rebalance):
        return _rebalance(asked)
    definition = jobs.jobs.get(operation.job)
    if definition is None:
        raise NoJobError(operation.job, jobs.jobs)
    check_still_it(operation.job, operation.defined_at, jobs)
    return replace(_decide(operation, definition, asked), about=job_key(operation.job))


def check_still_it(job: str, defined_at: int | None, jobs: JobsSnapshot) -> None:
    """Check that the job is still the one that the user has looked at.

    :param defined_at: see :class:`~.operations.OnJob`
    :raises OperationError: if the job has changed
    """
    if defined_at is not None and defined_at != jobs.defined_at.get(job):
        raise OperationError(
            f"job {job!r} has changed: it was submitted again or altered since you looked at it. Nothing was"
            " done; look at it again first"
        )


def check_nothing_lost(job: str, written: JobDefinition, changed_from: int | None, jobs: JobsSnapshot) -> None:
    """Check that no other change was lost. If two users alter a job at the same moment, neither sees the other's
    change; the one whose record is the later one is told.

    :param changed_from: the offset of the definition that was altered
    :raises LostUpdateError: if the written definition has replaced another one
    """
    if jobs.jobs.get(job) == written and jobs.replaced_at.get(job) != changed_from:
        raise LostUpdateError(
            f"job {job!r} was altered as asked, but somebody else altered it in the same moment, and that change is"
            " undone: look at the job, and alter it again"
        )


def _decide(operation: JobOperation, definition: JobDefinition, asked: Asked) -> Decision:
    match operation:
        case HaltJob():
            return _halt(operation, asked)
        case ResumeJob():
            return _resume(operation, asked)
        case StopTasks():
            return stop_tasks(operation, definition, asked)
        case RestartJob():
            return restart(operation, definition, asked)
        case AlterJob():
            return _alter(operation, definition, asked)


def _rebalance(asked: Asked) -> Decision:
    if not present(asked.status):
        raise OperationError("the group has no workers: start some first")
    if not isinstance(asked.status.group, ClassicRecord):
        raise OperationError(
            "this is a declarative group (group.protocol=connect), which has no rounds: its coordinator moves it to its"
            " target as soon as anything changes. To change how long lost tasks wait for their worker, use"
            " cospark groups configure --max-delay-ms"
        )
    record = RebalanceRecord(by=asked.by, at_ms=asked.at_ms)
    return Decision(
        outcome=Outcome(subject=GROUP_KEY, changed=True),
        about=REBALANCE_KEY,
        jobs={REBALANCE_KEY: record.to_json()},
        event=asked.event("rebalance", GROUP_KEY),
    )


def altered(operation: AlterJob, definition: JobDefinition) -> JobDefinition:
    """The definition with these changes; the same one if there are none.

    :raises OperationError: for fields that can't be altered
    :raises JobError: for values that are not acceptable
    """
    unknown = sorted(operation.settings.keys() - set(ALTERABLE))
    if unknown:
        raise OperationError(
            f"job {operation.job!r}: {', '.join(unknown)} can't be altered while it runs, only config,"
            f" session_conf, {', '.join(ALTERABLE)}; for anything else submit the job again"
        )
    changed = replace(
        definition,
        config=_merged(definition.config, operation.config),
        session_conf=_merged(definition.session_conf, operation.session_conf),
        **operation.settings,  # type: ignore[arg-type]  # the fields are known
    )
    if changed.fingerprint == definition.fingerprint:
        return changed
    return replace(changed, basis=definition.tasks_basis)


def _merged(before: Mapping[str, ValueT], changes: Mapping[str, ValueT | None]) -> dict[str, ValueT]:
    given = {name: value for name, value in changes.items() if value is not None}
    gone = changes.keys() - given.keys()
    return {name: value for name, value in {**before, **given}.items() if name not in gone}


def _alter(operation: AlterJob, definition: JobDefinition, asked: Asked) -> Decision:
    job, changed = operation.job, altered(operation, definition)
    if changed.same_as(definition):
        return Decision(outcome=Outcome(subject=job, changed=False))
    named = (*sorted(operation.config), *sorted(operation.session_conf), *sorted(operation.settings))
    names = ", ".join(named[:_MOST_NAMED])
    noted = notes.of_change(definition, changed, asked.jobs, asked.status)
    return Decision(
        outcome=Outcome(subject=job, changed=True, notes=noted),
        jobs={job_key(job): changed.to_json()},
        event=asked.event("alter", job, names[:_MOST_SAID]),
    )


def _halt(operation: HaltJob, asked: Asked) -> Decision:
    job, jobs, status = operation.job, asked.jobs, asked.status
    now = jobs.halt_of(job)
    if now is not None and now.halt is operation.halt:
        return Decision(outcome=Outcome(subject=job, changed=False))
    progress = job_progress(job, jobs, status)
    if progress is not None and progress.complete:
        raise OperationError(f"job {job!r} has nothing left to run, so there is nothing to {_WORDS[operation.halt]}")
    record = HaltRecord(job=job, halt=operation.halt, by=asked.by, at_ms=asked.at_ms)
    what_stops = notes.of_stop((task for task in status.tasks if task.job == job), jobs, status)
    return Decision(
        outcome=Outcome(subject=job, changed=True, notes=what_stops),
        jobs={halt_key(job): record.to_json()},
        event=asked.event(_WORDS[operation.halt], job),
    )


def _resume(operation: ResumeJob, asked: Asked) -> Decision:
    job = operation.job
    if asked.jobs.halt_of(job) is None:
        return Decision(outcome=Outcome(subject=job, changed=False))
    return Decision(
        outcome=Outcome(subject=job, changed=True),
        jobs={halt_key(job): None},
        event=asked.event("resume", job),
    )
