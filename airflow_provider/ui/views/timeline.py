"""The timeline of a group: attempts of tasks on its workers, and rebalances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from airflow_provider.state.records import ActionEvent, TaskState
from airflow_provider.state.reports.replayed_round import lesson_sentence, sentence
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import present
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.timeline_view import Attempt, PastRound, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An attempt in the picture, as the events say.

    :param key: identifies it, so that a browser can replace it
    """

    key: int
    worker: str
    task: str
    attempt: int
    epoch: int
    end: str
    started_at_ms: int
    ended_at_ms: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A rebalance in the picture."""

    epoch: int
    at_ms: int
    because: str
    starts: int
    stops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The changes of the timeline.

    :param origin: identifies the count of changes; a browser that has another one has to start again
    :param changed: the number of the last change, with which a browser asks for later ones
    :param reading: the events are being read for the first time; there may be more
    :param lost: when the workers of those attempts were last heard of that run by the events, but no more; by key. All
        of them, since such an attempt has no event, and may turn out to run
    :param dropped: how many older attempts are not shown
    """

    origin: str
    changed: int
    reading: bool
    bars: tuple[Bar, ...]
    lost: Mapping[int, int]
    marks: tuple[Mark, ...]
    dropped: int


def picture(origin: str, timeline: Timeline, jobs: JobsSnapshot, status: StatusSnapshot, *, reading: bool) -> Picture:
    """The timeline's changes as a browser draws them, and which of all attempts are lost now."""
    there = present(status)
    return Picture(
        origin=origin,
        changed=timeline.changed,
        reading=reading,
        bars=tuple(
            _bar(attempt, jobs)
            for attempt in timeline.attempts
            if not attempt.task.is_planner  # takes no slot, and hardly any time
        ),
        lost={
            attempt.key: _heard_ms(attempt, status)
            for attempt in timeline.running
            if not attempt.task.is_planner and not _runs(attempt, status, there)
        },
        marks=tuple(
            Mark(epoch=past.epoch, at_ms=past.at_ms, because=past.because, starts=past.starts, stops=past.stops)
            for past in timeline.rounds
        ),
        dropped=timeline.dropped,
    )


def _runs(attempt: Attempt, status: StatusSnapshot, there: frozenset[str]) -> bool:
    last = status.tasks.get(attempt.task)
    still = last is not None and (last.state, last.attempt) == (TaskState.RUNNING, attempt.number)
    return still and attempt.worker in there


def _heard_ms(attempt: Attempt, status: StatusSnapshot) -> int:
    said = status.workers.get(attempt.worker)
    return max(attempt.started_at_ms, said.at_ms if said else 0)


def _bar(attempt: Attempt, jobs: JobsSnapshot) -> Bar:
    return Bar(
        key=attempt.key,
        worker=attempt.worker,
        task=jobs.label(attempt.task),
        attempt=attempt.number,
        epoch=attempt.epoch,
        end=attempt.end.value,
        started_at_ms=attempt.started_at_ms,
        ended_at_ms=attempt.ended_at_ms,
        why="; ".join(filter(None, (attempt.why, attempt.ended_why and f"stopped: {attempt.ended_why}"))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """A completed rebalance.

    :param explained: a sentence for each task that moved, as in ``cospark replay --explain``
    :param more: how many more there are that are not explained
    """

    epoch: int
    at_ms: int
    leader: str
    members: tuple[str, ...]
    because: str
    delay_ms: int
    starts: int
    stops: int
    explained: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What has happened to a group, the newest first.

    :param reading: the events are being read for the first time; there may be more
    :param actions: the requests of users
    """

    reading: bool
    actions: tuple[ActionEvent, ...]
    epochs: tuple[EpochLine, ...]


def history(timeline: Timeline, *, reading: bool) -> History:
    """The rounds and requests of a timeline, in words."""
    return History(
        reading=reading,
        actions=tuple(reversed(timeline.actions)),
        epochs=tuple(_epoch(past) for past in reversed(timeline.rounds)),
    )


def _epoch(past: PastRound) -> EpochLine:
    return EpochLine(
        epoch=past.epoch,
        at_ms=past.at_ms,
        leader=past.leader,
        members=past.members,
        because=past.because,
        delay_ms=past.delay_ms,
        starts=past.starts,
        stops=past.stops,
        explained=tuple(_sentences(past)),
        more=past.starts + past.stops + past.learned - len(past.moves) - len(past.lessons),
    )


def _sentences(past: PastRound) -> Iterator[str]:
    for task, move in past.moves:
        yield sentence(task, move)
    for task, lesson in past.lessons:
        yield lesson_sentence(task, lesson)
