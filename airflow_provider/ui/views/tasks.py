"""The tasks of a group. A browser gets them a page at a time, as there may be 100,000."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from airflow_provider.state.records import PlanRecord, TaskHaltRecord, TaskState, TaskStatus, task_name
from airflow_provider.state.records.status_topic.failing import keeps_failing, standing_error
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.shown_tasks import (
    kept_waiting_by,
    shown_status,
    shown_statuses,
    state_of_nobodys,
)
from airflow_provider.state.views.timeline_view import Attempt
from airflow_provider.ui.views.lags import LagLine, how_far_behind
from airflow_provider.values.model import TaskId, labelled, planner_of

_LONGEST_RESULT: Final = 20_000
LARGEST_PAGE: Final = 200


class TaskOrder(str, Enum):
    """The sort orders of tasks."""

    TASK = "task"
    STATE = "state"
    WORKER = "worker"
    ATTEMPT = "attempt"
    STARTED = "started"
    TOOK = "took"
    BEHIND = "behind"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks a browser asks for.

    :param text: a part of their label, worker or error, whatever its case; empty: all
    :param job: only of this job; empty: all
    :param worker: only of this worker; empty: all
    """

    text: str = ""
    state: TaskState | None = None
    job: str = ""
    worker: str = ""
    order: TaskOrder = TaskOrder.TASK
    descending: bool = False
    page: int = 0
    size: int = 50


class FoundTask(NamedTuple):
    """A task of a present run.

    :param slots: how many slots of its worker it takes while it runs; a planner takes none
    """

    task: TaskId
    label: str
    state: TaskState
    last: TaskStatus | None
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """A task as a line of a table. Times are wall clock, milliseconds since 1970.

    :param lag: how far it is behind; None: it is no running stream
    :param waits_for: what it waits for, or its worker, in words
    :param server: where it runs even without its worker; empty: nowhere
    """

    job: str
    index: int
    label: str
    slots: int
    state: TaskState
    worker: str
    attempt: int | None
    failures: int
    started_at_ms: int | None
    took_ms: int | None
    retry_at_ms: int | None
    error: str
    progress: str
    lag: LagLine | None
    waits_for: str
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """A page of tasks.

    :param found: how many tasks match the query
    :param tasks: how many there are in all
    :param counts: how many tasks are in each state, of those that match the query except for its state
    """

    lines: tuple[TaskLine, ...]
    page: int
    size: int
    found: int
    tasks: int
    counts: Mapping[TaskState, int]


class KnownPlan:
    """What is kept of a plan's tasks from one snapshot to the next.

    :ivar labels: their labels for people
    :ivar waiting: see :func:`~airflow_provider.state.views.task_progress.task_places.effective_statuses`
    """

    def __init__(self, job: str, plan: PlanRecord, record: GroupRecord | None) -> None:
        self.labels = tuple(
            labelled(TaskId(job, index), task_name(config)) for index, config in enumerate(plan.configs)
        )
        self.waiting: dict[TaskId, TaskStatus] = {}
        self._plan = plan
        self._record = record

    def again(self, job: str, plan: PlanRecord, record: GroupRecord | None) -> KnownPlan:
        """This one, if the plan is the same, else a new one."""
        if plan is not self._plan:
            return KnownPlan(job, plan, record)
        if record is not self._record:
            self.waiting, self._record = {}, record
        return self


Known = Callable[[str, PlanRecord, "GroupRecord | None"], KnownPlan]
"""Returns what is kept of a job's plan."""


def found_tasks(jobs: JobsSnapshot, status: StatusSnapshot, known: Known = KnownPlan) -> tuple[FoundTask, ...]:
    """All tasks of present runs, by job and index, and planners that have not finished."""
    return tuple(_found(jobs, status, known))


def _found(jobs: JobsSnapshot, status: StatusSnapshot, known: Known) -> Iterator[FoundTask]:
    for job in sorted(jobs.jobs):
        planner = shown_status(planner_of(job), jobs, status)
        if planner is not None and planner.state is not TaskState.FINISHED:
            yield FoundTask(planner.task, str(planner.task), planner.state, planner, 0)
        plan = jobs.plan_of(job)
        if plan is None:
            continue
        of_plan = known(job, plan, status.group)
        unowned = state_of_nobodys(job, jobs)
        statuses = shown_statuses(job, jobs, status, of_plan.waiting)
        for label, (task, last) in zip(of_plan.labels, statuses, strict=True):
            yield FoundTask(task, label, last.state if last else unowned, last, plan.large.get(task.index, 1))


def task_page(tasks: Sequence[FoundTask], query: TaskQuery, status: StatusSnapshot) -> TaskPage:
    wanted = list(filter(_filter_of(query), tasks))
    counts = Counter(found.state for found in wanted)
    if query.state is not None:
        wanted = [found for found in wanted if found.state is query.state]
    if query.order is not TaskOrder.TASK:
        wanted.sort(key=_KEYS[query.order], reverse=query.descending)
    elif query.descending:
        wanted.reverse()
    size = max(1, min(query.size, LARGEST_PAGE))
    page = max(0, min(query.page, (len(wanted) - 1) // size))
    return TaskPage(
        lines=tuple(task_line(found, status) for found in wanted[page * size : (page + 1) * size]),
        page=page,
        size=size,
        found=len(wanted),
        tasks=len(tasks),
        counts=counts,
    )


def task_line(found: FoundTask, status: StatusSnapshot) -> TaskLine:
    last = found.last
    return TaskLine(
        job=found.task.job,
        index=found.task.index,
        label=found.label,
        slots=found.slots,
        state=found.state,
        worker=last.worker if last else "",
        attempt=last.attempt if last else None,
        failures=last.failures if last else 0,
        started_at_ms=last.started_at_ms if last else None,
        took_ms=last.took_ms if last else None,
        retry_at_ms=last.retry_at_ms if last and last.state is TaskState.PENDING else None,
        error=_error_of(last),
        progress=last.progress_in_words() if last else "",
        lag=LagLine.of(last),
        waits_for=kept_waiting_by(last, status),
        server=last.server if last else "",
    )


def _error_of(last: TaskStatus | None) -> str:
    error = None if last is None or last.state is TaskState.FINISHED else standing_error(last)
    if last is None or error is None:
        return ""
    return f"failed {last.counted_failures} times in a row: {error.line}" if keeps_failing(last) else error.line


def _filter_of(query: TaskQuery) -> Callable[[FoundTask], bool]:
    text = query.text.casefold()

    def fits(found: FoundTask) -> bool:
        last = found.last
        if query.job and found.task.job != query.job:
            return False
        if query.worker and (last is None or last.worker != query.worker):
            return False
        if not text or text in found.label.casefold():
            return True
        return last is not None and (
            text in last.worker.casefold() or (last.error is not None and text in last.error.message.casefold())
        )

    return fits


_STATES: Final = {state: place for place, state in enumerate(TaskState)}
_KEYS: Final[Mapping[TaskOrder, Callable[[FoundTask], Any]]] = {
    TaskOrder.STATE: lambda found: _STATES[found.state],
    TaskOrder.WORKER: lambda found: found.last.worker if found.last else "",
    TaskOrder.ATTEMPT: lambda found: found.last.attempt if found.last else 0,
    TaskOrder.STARTED: lambda found: (found.last and found.last.started_at_ms) or 0,
    TaskOrder.TOOK: lambda found: (found.last and found.last.took_ms) or 0,
    TaskOrder.BEHIND: lambda found: how_far_behind(found.last),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """One start of a task."""

    number: int
    worker: str
    epoch: int
    end: str
    started_at_ms: int
    ended_at_ms: int | None
    why: str
    ended_why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """All that is known of a task.

    :param defined_at: the offset of its job's definition
    :param message: of its last error
    :param result: what it returned, as JSON text
    :param halt: who stopped this task alone, and when; None: nobody
    """

    line: TaskLine
    defined_at: int
    message: str
    traceback: str
    result: str
    retries: int | None
    halt: TaskHaltRecord | None
    attempts: tuple[AttemptLine, ...]


def task_detail(
    task: TaskId, jobs: JobsSnapshot, status: StatusSnapshot, attempts: Iterable[Attempt]
) -> TaskDetail | None:
    """Describe a task; None: there is none of this name in a present run."""
    definition = jobs.jobs.get(task.job)
    last = shown_status(task, jobs, status)
    if definition is None or (last is None and jobs.work_of(task) is None):
        return None
    state = last.state if last else state_of_nobodys(task.job, jobs)
    found = FoundTask(task, jobs.label(task), state, last, jobs.slots_of(task))
    error = last.error if last else None
    return TaskDetail(
        line=task_line(found, status),
        defined_at=jobs.defined_at[task.job],
        message=error.message if error else "",
        traceback=error.traceback if error else "",
        result=_as_text(last.result) if last and last.state is TaskState.FINISHED else "",
        retries=definition.retries_of(task),
        halt=jobs.halt_of_task(task),
        attempts=tuple(
            AttemptLine(
                number=attempt.number,
                worker=attempt.worker,
                epoch=attempt.epoch,
                end=attempt.end.value,
                started_at_ms=attempt.started_at_ms,
                ended_at_ms=attempt.ended_at_ms,
                why=attempt.why,
                ended_why=attempt.ended_why,
            )
            for attempt in attempts
        ),
    )


def _as_text(result: object) -> str:
    text = json.dumps(result, indent=1, ensure_ascii=False)
    return text if len(text) <= _LONGEST_RESULT else f"{text[:_LONGEST_RESULT]}\n… {len(text):,} characters in all"
