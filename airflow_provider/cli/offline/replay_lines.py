"""Parses a line of a history for ``cospark replay``: a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from airflow_provider.assignment.learners.model import READY, LearnerRound
from airflow_provider.assignment.model import Absence, LeaveReason, Round
from airflow_provider.cli.offline.json_lines import (
    UnreadableLineError,
    is_integer,
    object_field,
    object_of_line,
    required,
    shown,
    tasks_of,
)
from airflow_provider.values.model import (
    NO_TASKS,
    PLANNER_INDEX,
    GenerationId,
    TaskId,
    Tasks,
    WorkerId,
    tasks_from_json,
)

RoundT = TypeVar("RoundT", Round, LearnerRound)

LEADER_RESTART: Final = "leader_restart"

_KEYS: Final = frozenset(
    {
        *("now", "generation", "last_completed", "jobs", "planners", "owned"),
        *("event", "left", "returns_ms", "draining", "running", "stays"),
    }
)
_LEARNER_KEYS: Final = _KEYS | {"stateful", "learning", "ready", "failed", "leaving"}

_MOST_TASKS: Final = 1_000_000
"""The most tasks of all jobs in a line, so that a single number can't fill the memory."""


@dataclass(frozen=True, slots=True)
class Line(Generic[RoundT]):
    """A parsed line.

    :param restarts: whether a new leader starts before that round
    :param round: its field ``named`` has the workers about whose absence the line says something
    :param ignored: unknown keys
    """

    restarts: bool
    round: RoundT
    ignored: frozenset[str]


def parse_line(line: bytes) -> Line[Round]:
    """Read one line of a history.

    :raises UnreadableLineError: naming what is wrong
    """
    data = object_of_line(line)
    return Line(_restarts(data), _round(data), frozenset(data) - _KEYS)


def parse_learner_line(line: bytes) -> Line[LearnerRound]:
    """Read one line of the history of a group with learner tasks. Owned tasks run, unless ``running`` says otherwise.

    :raises UnreadableLineError: naming what is wrong
    """
    data = object_of_line(line)
    known = _round(data)
    jobs = (
        frozenset(_strings(data, "stateful", "jobs")) if "stateful" in data else frozenset(object_field(data, "jobs"))
    )
    owned = NO_TASKS.union(*known.owned.values())
    this = LearnerRound(
        **known.by_field,
        stateful=jobs,
        pending=owned - _tasks(data, "running") if "running" in data else NO_TASKS,
        learning=_learning(data),
        failed=_shares(data, "failed") if "failed" in data else {},
        leaving_soon=frozenset(map(WorkerId, _strings(data, "leaving", "workers"))),
    )
    return Line(_restarts(data), this, frozenset(data) - _LEARNER_KEYS)


def _restarts(data: Mapping[str, Any]) -> bool:
    event = data.get("event")
    if not isinstance(event, str | None):
        raise UnreadableLineError(f"event must be a string, not {shown(event)}")
    return event == LEADER_RESTART


def _round(data: Mapping[str, Any]) -> Round:
    owned = _owned(data)
    said = _absences(data)
    return Round(
        now_ms=_integer(data, "now"),
        generation=GenerationId(_integer(data, "generation")),
        last_completed=GenerationId(_integer(data, "last_completed")),
        configured=_configured(data),
        owned=owned,
        named=frozenset(said),
        absent={worker: absence for worker, absence in said.items() if worker not in owned},
        draining=frozenset(map(WorkerId, _strings(data, "draining", "workers"))),
        stays=_tasks(data, "stays"),
        revocation_rank=dict.fromkeys(_tasks(data, "running"), 1),
    )


def _configured(data: Mapping[str, Any]) -> Tasks:
    jobs = object_field(data, "jobs")
    for job, number in jobs.items():
        if not is_integer(number) or number < 0:
            raise UnreadableLineError(
                f"jobs: the number of tasks of {shown(job)} must be an integer >= 0, not {shown(number)}"
            )
    if sum(jobs.values()) > _MOST_TASKS:
        raise UnreadableLineError(f"jobs: more than {_MOST_TASKS} tasks")
    planners = data.get("planners", True)
    if not isinstance(planners, bool):
        raise UnreadableLineError(f"planners must be true or false, not {shown(planners)}")
    first = PLANNER_INDEX if planners else PLANNER_INDEX + 1
    return frozenset(TaskId(job, index) for job, number in jobs.items() for index in range(first, number))


def _owned(data: Mapping[str, Any]) -> dict[WorkerId, Tasks]:
    if not object_field(data, "owned"):
        raise UnreadableLineError("owned: a round needs at least one worker")
    return _shares(data, "owned")


def _learning(data: Mapping[str, Any]) -> dict[WorkerId, dict[TaskId, float]]:
    """The progress of each lesson: complete if it is ready, otherwise none."""
    learning: dict[WorkerId, dict[TaskId, float]] = {}
    for key, progress in (("learning", 0.0), ("failed", 0.0), ("ready", READY)):
        if key in data:
            for worker, tasks in _shares(data, key).items():
                learning.setdefault(worker, {}).update(dict.fromkeys(tasks, progress))
    return learning


def _shares(data: Mapping[str, Any], key: str) -> dict[WorkerId, Tasks]:
    shares: dict[WorkerId, Tasks] = {}
    for worker, tasks in object_field(data, key).items():
        if not isinstance(tasks, list):
            raise UnreadableLineError(
                f"{key}: {shown(worker)} must have a list of [job, index] pairs, not {shown(tasks)}"
            )
        try:
            shares[WorkerId(worker)] = tasks_from_json(tasks)
        except ValueError as wrong:
            raise UnreadableLineError(f"{key}: of {shown(worker)}: {wrong}") from None
    return shares


def _strings(data: Mapping[str, Any], key: str, what: str) -> list[str]:
    values = data.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UnreadableLineError(f"{key} must be a list of {what}, not {shown(values)}")
    return values


def _tasks(data: Mapping[str, Any], key: str) -> Tasks:
    return tasks_of(data.get(key, []), key)


def _absences(data: Mapping[str, Any]) -> dict[WorkerId, Absence]:
    left = {worker: _reason(worker, reason) for worker, reason in _optional_object(data, "left").items()}
    returns = _optional_object(data, "returns_ms")
    for worker, returns_ms in returns.items():
        if returns_ms is not None and not (is_integer(returns_ms) and returns_ms >= 0):
            raise UnreadableLineError(
                f"returns_ms: of {shown(worker)}: must be an integer >= 0 or null, not {shown(returns_ms)}"
            )
    return {
        WorkerId(worker): Absence(left=left.get(worker), returns_ms=returns.get(worker))
        for worker in left.keys() | returns.keys()
    }


def _reason(worker: str, reason: object) -> LeaveReason:
    try:
        return LeaveReason(reason)
    except ValueError:
        known = ", ".join(LeaveReason)
        raise UnreadableLineError(f"left: of {shown(worker)}: must be one of {known}, not {shown(reason)}") from None


def _optional_object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return object_field(data, key) if key in data else {}


def _integer(data: Mapping[str, Any], key: str) -> int:
    value = required(data, key)
    if not is_integer(value):
        raise UnreadableLineError(f"{key} must be an integer, not {shown(value)}")
    return int(value)
