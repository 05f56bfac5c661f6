"""The workers of a group: their state, where they run, what they run, what waits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from airflow_provider.state.records import ALL_WORKERS, LogLevel, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.records.addresses import address_within, web_address
from airflow_provider.state.reports.groups.worker_words import known_workers, waiting_for, worker_in_words
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import may_be_asked
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.state.views.task_progress.task_places import effective_status
from airflow_provider.ui.views.lags import LagLine
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId

_MOST_RUNNING: Final = 12

_WHERE: Final = {
    WorkerPhase.JOINING: "task process",
    WorkerPhase.STABLE: "task process",
    WorkerPhase.DEFERRED: "triggerer",
    WorkerPhase.STOPPING: "task process",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that a worker runs.

    :param slots: how many of its slots it takes
    :param progress: in words
    :param lag: how far it is behind; None: it is no stream
    :param server: where it runs even without the worker; empty: nowhere
    """

    job: str
    index: int
    label: str
    slots: int
    attempt: int
    since_ms: int | None
    progress: str
    lag: LagLine | None
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A worker.

    :param words: its state in words
    :param where: the kind of process that holds its membership
    :param url: the page of its task instance in this Airflow, or empty
    :param spark_ui: the address of its Spark UI, on any host, or empty
    :param more_running: how many tasks it runs besides these
    :param asked: what it was asked to do, and has not done yet
    :param may_be_asked: whether it would receive a request to leave
    """

    worker: str
    state: str
    words: str
    where: str
    leader: bool
    url: str
    spark_ui: str
    epoch: int | None
    slots: int
    running: tuple[RunningTask, ...]
    more_running: int
    pending: int
    owned: int
    waiting: int
    learning: int
    asked: str
    may_be_asked: bool
    heard_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLine:
    """The level of a logger.

    :param worker: only in this one; empty: in all
    """

    logger: str
    level: LogLevel
    worker: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersView:
    """The workers, and the log levels of the code that they run."""

    workers: tuple[WorkerLine, ...]
    levels: tuple[LevelLine, ...]


def pages_of_waiting(status: StatusSnapshot, base_url: str) -> list[str]:
    """The pages, in this Airflow, of the workers that wait for Airflow."""
    waiting = (said.url for said in status.workers.values() if said.awaits is not None)
    return [url for url in waiting if address_within(base_url, url)]


def workers_view(
    jobs: JobsSnapshot, status: StatusSnapshot, base_url: str = "", held_up: Mapping[str, str] = MappingProxyType({})
) -> WorkersView:
    """The workers of a group, and the log levels that are set.

    :param base_url: of this Airflow, to whose task instances links may lead
    :param held_up: why Airflow does not start those with these pages
    """
    levels = (
        LevelLine(
            logger=logger, level=level, worker="" if record.worker == ALL_WORKERS else record.worker, by=record.by
        )
        for record in jobs.levels.values()
        for logger, level in record.levels.items()
    )
    by_logger = sorted(levels, key=lambda line: (line.logger, line.worker))
    return WorkersView(workers=workers(jobs, status, base_url, held_up), levels=tuple(by_logger))


def workers(
    jobs: JobsSnapshot, status: StatusSnapshot, base_url: str = "", held_up: Mapping[str, str] = MappingProxyType({})
) -> tuple[WorkerLine, ...]:
    """The workers that are in the group, or are expected to return or join."""
    unfinished = configured(jobs, status.tasks)
    hear = may_be_asked(status)
    lines = []
    for name in known_workers(status):
        words = worker_in_words(name, status)
        if words is not None:
            said = status.workers.get(name)
            why = held_up.get(said.url) if said is not None and said.awaits is not None else None
            line = _line(name, f"{words}: {why}" if why else words, jobs, status, unfinished, hears=name in hear)
            lines.append(replace(line, url=address_within(base_url, line.url)))
    return tuple(lines)


def _line(
    name: WorkerId, words: str, jobs: JobsSnapshot, status: StatusSnapshot, unfinished: Tasks, *, hears: bool
) -> WorkerLine:
    said, record = status.workers.get(name), status.group
    gone = said is None or said.state is WorkerPhase.LEFT
    owned = (record.owned_by(name) if record and not gone else NO_TASKS) & unfinished
    heard_ms = said.at_ms if said else 0
    running = []
    for task in sorted(task for task in owned if _may_run(status.tasks.get(task))):
        last = effective_status(task, jobs, status)
        if last is not None and last.state is TaskState.RUNNING:
            heard_ms = max(heard_ms, last.heard_ms)
            running.append(
                RunningTask(
                    job=task.job,
                    index=task.index,
                    label=jobs.label(task),
                    slots=jobs.slots_of(task),
                    attempt=last.attempt,
                    since_ms=last.started_at_ms,
                    progress=last.progress_in_words(),
                    lag=LagLine.of(last),
                    server=last.server,
                )
            )
    control = jobs.controls.get(name)
    return WorkerLine(
        worker=name,
        state=said.state.value if said else "unknown",
        words=words,
        where=_WHERE.get(said.state, "") if said else "",
        leader=record is not None and record.leader == name,
        url=said.url if said else "",
        spark_ui=web_address(said.spark_ui) if said and not gone else "",
        epoch=said.epoch if said else None,
        slots=said.slots if said and not gone else 0,
        running=tuple(running[:_MOST_RUNNING]),
        more_running=max(0, len(running) - _MOST_RUNNING),
        pending=len(owned) - len(running),
        owned=len(owned),
        waiting=len(waiting_for(name, status) & unfinished),
        learning=len(said.learning) if said and not gone else 0,
        asked=control.action.value if control else "",
        may_be_asked=hears,
        heard_ms=heard_ms or None,
    )


def _may_run(last: TaskStatus | None) -> bool:
    """Whether it may run by its last record: most of thousands of tasks wait, and have none."""
    return last is not None and last.state is TaskState.RUNNING
