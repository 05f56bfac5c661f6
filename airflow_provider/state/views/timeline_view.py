"""What the last events of a group add up to: which attempt of which task ran where, which rebalances there were, who
asked for what.

Only so many are kept: the topic may hold a week of a busy group.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from airflow_provider.assignment.model import Move
from airflow_provider.state.records import ActionEvent, Event, RebalanceEvent, TaskEvent, TaskState, TaskStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.move_reasons import one_by_one, why
from airflow_provider.values.model import Epoch, TaskId, WorkerId

MOST_ATTEMPTS: Final = 10_000
MOST_ROUNDS: Final = 300
MOST_ACTIONS: Final = 20
MOST_MOVES: Final = 200
"""So many of the tasks that move in a round are kept by name."""
_MOST_REASONS: Final = 100_000


class AttemptEnd(str, Enum):
    """How an attempt is, or how it ended."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    """Its task moves, its worker leaves, or the lease ended."""
    MOVED = "moved"
    """It runs on, and another worker watches it."""
    LOST = "lost"
    """Its worker could not say how: the task was next heard of elsewhere."""


_AS: Final = {
    TaskState.RUNNING: AttemptEnd.RUNNING,
    TaskState.FINISHED: AttemptEnd.FINISHED,
    TaskState.FAILED: AttemptEnd.FAILED,
    TaskState.STOPPED: AttemptEnd.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of a task. Times are wall clock, milliseconds since 1970.

    :param key: a number of its own, which grows
    :param changed: grows with each change of any attempt
    :param why: why the task was started on this worker, in words
    :param ended_why: why it was stopped there, in words
    """

    key: int
    changed: int
    task: TaskId
    number: int
    worker: WorkerId
    epoch: Epoch
    started_at_ms: int
    end: AttemptEnd = AttemptEnd.RUNNING
    ended_at_ms: int | None = None
    why: str = ""
    ended_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRound:
    """A completed rebalance.

    :param moves: of the first tasks that moved
    :param starts: how many tasks it has started somewhere
    :param stops: how many it has had stopped
    """

    epoch: Epoch
    at_ms: int
    leader: WorkerId
    members: tuple[WorkerId, ...]
    because: str
    delay_ms: int
    moves: tuple[tuple[TaskId, Move], ...]
    starts: int
    stops: int
    lessons: tuple[tuple[TaskId, Move], ...]
    learned: int

    @classmethod
    def of(cls, record: GroupRecord, at_ms: int) -> PastRound:
        return cls(
            epoch=record.epoch,
            at_ms=at_ms,
            leader=record.leader,
            members=tuple(sorted(record.members)),
            because=record.because,
            delay_ms=record.delay_ms,
            moves=_first(record.moves),
            starts=sum(len(move.tasks) for move in record.moves if move.target is not None),
            stops=sum(len(move.tasks) for move in record.moves if move.target is None),
            lessons=_first(record.lessons),
            learned=sum(len(lesson.tasks) for lesson in record.lessons),
        )


def _first(moves: tuple[Move, ...]) -> tuple[tuple[TaskId, Move], ...]:
    few = islice(one_by_one(moves), MOST_MOVES)
    return tuple((task, replace(move, tasks=frozenset((task,)))) for task, move in few)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The timeline as read up to an offset.

    :param changed: the highest number of a change in it
    :param attempts: those that have changed since the number that was asked for
    :param running: all that have not ended
    :param dropped: how many older attempts are kept no more
    """

    changed: int
    attempts: tuple[Attempt, ...]
    running: tuple[Attempt, ...]
    rounds: tuple[PastRound, ...]
    actions: tuple[ActionEvent, ...]
    dropped: int
    unreadable: int = 0


class _Running(NamedTuple):
    """An attempt that has not ended, how often its task had failed before, and when it began, wherever that was."""

    key: int
    failures: int
    started_at_ms: int | None


def _ended_without_a_word(running: _Running, told: TaskStatus) -> AttemptEnd:
    """What became of an attempt whose task was next heard of as something else."""
    if told.failures > running.failures:
        return AttemptEnd.FAILED
    return AttemptEnd.FINISHED if told.task.is_planner else AttemptEnd.LOST


class TimelineView:
    """Adds events up, one by one."""

    def __init__(self) -> None:
        self._changed = 0
        self._dropped = 0
        self._attempts: OrderedDict[int, Attempt] = OrderedDict()
        self._running: dict[TaskId, _Running] = {}
        self._rounds: deque[PastRound] = deque(maxlen=MOST_ROUNDS)
        self._actions: deque[ActionEvent] = deque(maxlen=MOST_ACTIONS)
        self._last: dict[TaskId, int] = {}
        self._starts: dict[TaskId, Move] = {}
        self._stops: dict[TaskId, Move] = {}
        self.unreadable = 0

    def take(self, event: Event) -> None:
        if isinstance(event, RebalanceEvent):
            self._take_round(event)
        elif isinstance(event, TaskEvent):
            self._take_step(event)
        else:
            self._changed += 1
            self._actions.append(event)

    def timeline(self, since: int = 0) -> Timeline:
        """:param since: the number of the last change that is known to who asks"""
        attempts = tuple(attempt for attempt in self._attempts.values() if attempt.changed > since)
        return Timeline(
            changed=self._changed,
            attempts=attempts,
            running=tuple(self._attempts[running.key] for running in self._running.values()),
            rounds=tuple(self._rounds),
            actions=tuple(self._actions),
            dropped=self._dropped,
            unreadable=self.unreadable,
        )

    def attempts_of(self, task: TaskId) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self._attempts.values() if attempt.task == task)

    def _take_round(self, event: RebalanceEvent) -> None:
        self._changed += 1
        self._rounds.append(PastRound.of(event.record, event.at_ms))
        if len(self._starts) > _MOST_REASONS:
            self._starts.clear()
            self._stops.clear()
        for move in event.record.moves:
            reasons = self._stops if move.target is None else self._starts
            reasons.update(dict.fromkeys(move.tasks, move))
            for task in move.tasks & self._last.keys():
                self._tell_why(self._last[task], move)

    def _tell_why(self, key: int, move: Move) -> None:
        """A worker may speak of its task before the leader has written of the round that gave or took it."""
        attempt = self._attempts[key]
        starts = move.target == attempt.worker and not attempt.why
        stops = move.target is None and move.source == attempt.worker and attempt.end is AttemptEnd.STOPPED
        if starts:
            self._attempts[key] = replace(attempt, changed=self._changed, why=why(move))
        elif stops and not attempt.ended_why:
            self._attempts[key] = replace(attempt, changed=self._changed, ended_why=why(move))

    def _take_step(self, event: TaskEvent) -> None:
        told = event.status
        running = self._running.get(told.task)
        if running is not None and told.started_at_ms != running.started_at_ms:
            self._end(running.key, _ended_without_a_word(running, told), event)
            running = None
        if told.started_at_ms is None or told.state not in _AS:
            return
        if running is None:
            key = self._begin(told, told.started_at_ms)
        elif told.state is TaskState.RUNNING and told.worker != self._attempts[running.key].worker:
            self._end(running.key, AttemptEnd.MOVED, event)
            key = self._begin(told, event.at_ms)
        else:
            key = running.key
        if told.state is not TaskState.RUNNING:
            self._end(key, _AS[told.state], event)

    def _begin(self, told: TaskStatus, started_at_ms: int) -> int:
        self._changed += 1
        move = self._starts.get(told.task)
        attempt = Attempt(
            key=self._changed,
            changed=self._changed,
            task=told.task,
            number=told.attempt,
            worker=told.worker,
            epoch=told.epoch,
            started_at_ms=started_at_ms,
            why=why(move) if move is not None and move.target == told.worker else "",
        )
        self._attempts[attempt.key] = attempt
        self._running[told.task] = _Running(attempt.key, told.failures, told.started_at_ms)
        self._last[told.task] = attempt.key
        if len(self._attempts) > MOST_ATTEMPTS:
            self._drop_oldest()
        return attempt.key

    def _drop_oldest(self) -> None:
        key, oldest = self._attempts.popitem(last=False)
        self._dropped += 1
        if self._last.get(oldest.task) == key:
            del self._last[oldest.task]
        running = self._running.get(oldest.task)
        if running is not None and running.key == key:
            del self._running[oldest.task]

    def _end(self, key: int, end: AttemptEnd, event: TaskEvent) -> None:
        self._changed += 1
        attempt = self._attempts[key]
        self._running.pop(attempt.task, None)
        move = self._stops.get(attempt.task) if end is AttemptEnd.STOPPED else None
        ended_at_ms = event.status.finished_at_ms if event.status.started_at_ms == attempt.started_at_ms else None
        self._attempts[key] = replace(
            attempt,
            changed=self._changed,
            end=end,
            ended_at_ms=ended_at_ms or event.at_ms,
            ended_why=why(move) if move is not None and move.source == attempt.worker else "",
        )
