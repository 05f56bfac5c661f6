"""What has happened to a group that somebody may want to act on, made of the records of its events topic. Pure.

Records go in one by one, in the order of the topic, and what each one tells comes out. It is a matter of the topic
alone: whoever reads it again finds the same events at the same offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any, Final

from airflow_provider.state.records import Event, RebalanceEvent, TaskEvent, TaskState, TaskStatus
from airflow_provider.state.records.status_topic.failing import begins_to_keep_failing
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.values.model import PLANNER_INDEX, TaskId, WorkerId

_RUNS_KEPT: Final = 4
"""For each job, so that late records of a run still count for that run."""
_MOST_JOBS: Final = 10_000
"""The last ones heard of: names of jobs may contain a date, and the reader may live for months."""
_ROUNDS_KEPT: Final = 16
_MOST_NAMED: Final = 100
"""The most tasks that an event names, because it is stored in Airflow's database."""


class EventKind(str, Enum):
    """What has happened."""

    REBALANCED = "rebalanced"
    """A rebalance was completed."""
    JOB_FINISHED = "job_finished"
    """Every task of a run of a job that ends by itself has finished."""
    JOB_FAILED = "job_failed"
    """Nothing of the run is left to run, and a task of it has failed for good; or its planner has. Of a job that does
    not end by itself: a task has failed for good, the first one since all were well.
    """
    TASK_FAILED = "task_failed"
    """A task has failed for good: its retries are used up."""
    TASK_KEEPS_FAILING = "task_keeps_failing"
    """A task has failed five times in a row, and is tried again."""
    TASK_STALLED = "task_stalled"
    """A stream runs, and has not moved for longer than expected."""
    WORKER_LOST = "worker_lost"
    """The group has gone on without a worker that has not left in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """One thing that has happened.

    :param id: names it within its group for ever: records may lie in the topic twice
    :param at_ms: wall clock, milliseconds since 1970
    :param job: that it is about; empty: about none
    :param about: what else there is to say of it, as JSON
    """

    kind: EventKind
    id: str
    at_ms: int
    job: str = ""
    about: Mapping[str, Any]

    def to_json(self, group: str) -> dict[str, Any]:
        return {"event": self.kind.value, "group": group, "id": f"{group}/{self.id}", "at_ms": self.at_ms, **self.about}


@dataclass(slots=True)
class _Run:
    """One run of a job, as far as the topic tells.

    :ivar tasks: how many its plan has, None before it is known
    :ivar bounded: whether it ends by itself
    :ivar ends: of each task that needs no worker any more: in which attempt, and how
    :ivar errors: those of failed tasks, the first one first, up to a limit
    :ivar again: the attempt of each task that has begun again after an end
    :ivar work: the fingerprint of what each task was heard to run last, and the epoch of that
    :ivar alarms: of each task that fails again and again: what it runs, and the attempt with which that was told
    :ivar stalled: since when each stalled stream has stalled
    :ivar told: whether its end has been told, and nothing of it has begun again since
    """

    job: str
    key: str
    tasks: int | None = None
    bounded: bool = True
    ends: dict[int, tuple[int, TaskState]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)
    work: dict[int, tuple[str, int]] = field(default_factory=dict)
    alarms: dict[int, tuple[str, int]] = field(default_factory=dict)
    stalled: dict[int, int] = field(default_factory=dict)
    told: bool = False

    def failed(self) -> list[int]:
        return sorted(index for index, (_, state) in self.ends.items() if state is TaskState.FAILED)

    @property
    def first_error(self) -> str:
        """The error of the task that failed first, with its name; empty: none has failed."""
        return next((f"{TaskId(self.job, index)}: {error}" for index, error in self.errors.items()), "")

    @property
    def over(self) -> bool:
        """Whether it has finished, or failed. As long as it is not known how many tasks it has, neither is known."""
        planner = self.ends.get(PLANNER_INDEX)
        if planner is None:
            return False
        if planner[1] is TaskState.FAILED:
            return True
        return len(self.ends) - 1 == self.tasks if self.bounded else bool(self.failed())

    def take(self, status: TaskStatus) -> bool:
        """:returns: whether it is the end of a task that had not ended before"""
        index = status.task.index
        work, epoch = self.work.get(index, (status.fingerprint, status.epoch))
        if status.fingerprint and work and status.fingerprint != work:
            if status.epoch < epoch or (status.task.is_planner and not status.state.final):
                return False  # late; and what was planned before counts until it has planned anew
            self._forget(status)
        self.work[index] = status.fingerprint or work, max(status.epoch, epoch)
        known = self.ends.get(index)
        if status.attempt < self.again.get(index, 0) or (known is not None and status.attempt <= known[0]):
            return False  # told before, or late
        if not status.state.final:
            if known is not None:
                self._no_end(index)
                self.again[index] = status.attempt
                self.told = self.told and self.over
            return False
        self._no_end(index)
        self.ends[index] = status.attempt, status.state
        if status.state is TaskState.FAILED and len(self.errors) < _MOST_NAMED:
            self.errors[index] = "" if status.error is None else status.error.message
        if status.task.is_planner and status.state is TaskState.FINISHED:
            self._planned(status.result)
            self.told = self.told and self.over
        return True

    def stalls(self, status: TaskStatus) -> bool:
        """:returns: whether its stream is stalled, and this has not been said before"""
        index, since_ms = status.task.index, status.stalled_since_ms
        if since_ms is None or status.state is not TaskState.RUNNING:
            self.stalled.pop(index, None)
            return False
        known, self.stalled[index] = self.stalled.get(index), since_ms
        return known != since_ms

    def _forget(self, changed: TaskStatus) -> None:
        """It runs something else than before, and its attempts count from the first again."""
        self.again.pop(changed.task.index, None)
        known = self._no_end(changed.task.index)
        if not changed.task.is_planner:
            self.told = self.told and self.over
        elif changed.state is TaskState.FAILED or (known is not None and known[1] is TaskState.FAILED):
            self.told = False

    def _planned(self, result: object) -> None:
        said = result if isinstance(result, dict) else {}
        tasks = said.get("tasks")
        self.tasks, self.bounded = (tasks if isinstance(tasks, int) else None), said.get("bounded", True) is not False
        for index in [index for index in self.ends if self.tasks is not None and index >= self.tasks]:
            self._no_end(index)

    def _no_end(self, index: int) -> tuple[int, TaskState] | None:
        """:returns: how it had ended, if it had"""
        self.errors.pop(index, None)
        return self.ends.pop(index, None)


class EventFold:
    """What the records of one events topic tell, from its beginning."""

    def __init__(self) -> None:
        self._rounds: deque[GroupRecord] = deque(maxlen=_ROUNDS_KEPT)
        self._runs: dict[str, dict[str, _Run]] = {}

    def take(self, event: Event) -> tuple[GroupEvent, ...]:
        """The next record."""
        if isinstance(event, RebalanceEvent):
            return tuple(self._rebalanced(event.record))
        if isinstance(event, TaskEvent):
            return tuple(self._task(event.status, event.at_ms))
        return ()  # a request is not yet an event

    def _rebalanced(self, record: GroupRecord) -> Iterator[GroupEvent]:
        if any(record.is_same_round(known) for known in self._rounds):
            return
        before = self._rounds[-1].members if self._rounds else {}
        self._rounds.append(record)
        round_id = "/".join(map(str, (record.epoch, *record.round_id.values(), record.leader, record.at_ms)))
        for worker in sorted(record.lost):
            yield GroupEvent(
                kind=EventKind.WORKER_LOST,
                id=f"{EventKind.WORKER_LOST.value}/{worker}/{before.get(worker, round_id)}",
                at_ms=record.at_ms,
                about={"worker": worker, "epoch": record.epoch, "members": sorted(record.members)},
            )
        yield GroupEvent(
            kind=EventKind.REBALANCED,
            id=f"{EventKind.REBALANCED.value}/{round_id}",
            at_ms=record.at_ms,
            about=_round_in_short(record, before.keys()),
        )

    def _task(self, status: TaskStatus, at_ms: int) -> Iterator[GroupEvent]:
        run = self._run(status.task.job, status.run_key)
        if run.stalls(status):
            yield _stalled(status, at_ms)
        alarm = status.fingerprint, status.attempt
        if begins_to_keep_failing(status) and run.alarms.get(status.task.index) != alarm:
            run.alarms[status.task.index] = alarm
            yield _failed(EventKind.TASK_KEEPS_FAILING, status, at_ms)
        if not run.take(status):
            return
        if status.state is TaskState.FAILED:
            yield _failed(EventKind.TASK_FAILED, status, at_ms)
        if run.over and not run.told:
            run.told = True
            yield _over(run, status, at_ms)

    def _run(self, job: str, key: str) -> _Run:
        runs = self._runs[job] = self._runs.pop(job, {})
        if len(self._runs) > _MOST_JOBS:
            del self._runs[next(iter(self._runs))]
        run = runs.get(key)
        if run is None:
            run = runs[key] = _Run(job, key)
            for old in list(islice(runs, max(0, len(runs) - _RUNS_KEPT))):
                del runs[old]
        return run


def _round_in_short(record: GroupRecord, before: Set[WorkerId]) -> dict[str, Any]:
    """Without the tasks: a rebalance may move a hundred thousand."""
    return {
        "epoch": record.epoch,
        "reason": record.because,
        "leader": record.leader,
        "members": sorted(record.members),
        "joined": sorted(record.members.keys() - before),
        "gone": sorted(before - record.members.keys()),
        "lost": sorted(record.lost),
        "moved": sum(len(move.tasks) for move in record.moves),
        "delay_ms": record.delay_ms,
    }


def _failed(kind: EventKind, status: TaskStatus, at_ms: int) -> GroupEvent:
    error = "" if status.error is None else status.error.message
    return _of_task(kind, status, at_ms, _id_of(kind, status.task, status), error=error)


def _stalled(status: TaskStatus, at_ms: int) -> GroupEvent:
    kind, since_ms = EventKind.TASK_STALLED, status.stalled_since_ms
    event_id = f"{kind.value}/{status.task}/{status.run_key}/{status.attempt}/{since_ms}"
    last_batch = None if status.progress is None else status.progress.batch
    return _of_task(kind, status, at_ms, event_id, since_ms=since_ms, last_batch=last_batch)


def _of_task(kind: EventKind, status: TaskStatus, at_ms: int, event_id: str, **more: object) -> GroupEvent:
    return GroupEvent(
        kind=kind,
        id=event_id,
        at_ms=at_ms,
        job=status.task.job,
        about={
            "job": status.task.job,
            "task": status.task.index,
            "run_key": status.run_key,
            "attempt": status.attempt,
            "worker": status.worker,
            **more,
        },
    )


def _over(run: _Run, last: TaskStatus, at_ms: int) -> GroupEvent:
    failed = run.failed()
    kind = EventKind.JOB_FAILED if failed else EventKind.JOB_FINISHED
    return GroupEvent(
        kind=kind,
        id=_id_of(kind, last.task, last),
        at_ms=at_ms,
        job=run.job,
        about={
            "job": run.job,
            "run_key": run.key,
            "tasks": run.tasks,
            "failed": failed[:_MOST_NAMED],
            "failures": len(failed),
            "error": run.first_error if failed else "",
        },
    )


def _id_of(kind: EventKind, task: TaskId, status: TaskStatus) -> str:
    return f"{kind.value}/{task}/{status.run_key}/{status.attempt}/{status.finished_at_ms}"
