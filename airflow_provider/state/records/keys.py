"""The names of a group's topics and the keys of their records, readable with any Kafka tool."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from reprlib import repr as short
from typing import Final

from airflow_provider.state.records.envelope import UnreadableRecordError
from airflow_provider.values.model import HIGHEST_INDEX, PLANNER_INDEX, TaskId, WorkerId

GROUP_KEY: Final = "group"
REBALANCE_KEY: Final = "rebalance"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNames:
    """The three topics of a group, each with one partition.

    :param jobs: compacted: what is to run
    :param status: compacted: what runs, and where
    :param events: kept for a limited time: what happened
    """

    jobs: str
    status: str
    events: str

    @classmethod
    def of(cls, group: str) -> TopicNames:
        return cls(jobs=f"{group}.jobs", status=f"{group}.status", events=f"{group}.events")

    @property
    def all(self) -> tuple[str, str, str]:
        return self.jobs, self.status, self.events


class KeyKind(str, Enum):
    """The kind of a record: the first part of its key."""

    __hash__ = str.__hash__  # that of an Enum is Python code, and each record that is read asks for it

    JOB = "job"
    PLAN = "plan"
    CONTROL = "control"
    HALT = "halt"
    """About a whole job."""
    HALT_TASK = "halt-task"
    RESTART = "restart"
    """About a whole job."""
    LEVELS = "levels"
    RESTART_TASK = "restart-task"
    REBALANCE = "rebalance"
    """About the whole group, as the next one."""
    GROUP = "group"
    WORKER = "worker"
    TASK = "task"


_OF_A_TASK: Final = frozenset({KeyKind.TASK, KeyKind.RESTART_TASK, KeyKind.HALT_TASK})
_OF_THE_GROUP: Final = frozenset({KeyKind.GROUP, KeyKind.REBALANCE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A parsed key.

    :param name: of the job or worker; empty for records about the whole group
    :param index: of the task, else -1
    """

    kind: KeyKind
    name: str = ""
    index: int = PLANNER_INDEX

    @property
    def task(self) -> TaskId:
        return TaskId(self.name, self.index)


def job_key(job: str) -> str:
    return f"{KeyKind.JOB.value}:{job}"


def plan_key(job: str) -> str:
    return f"{KeyKind.PLAN.value}:{job}"


def control_key(worker: WorkerId) -> str:
    return f"{KeyKind.CONTROL.value}:{worker}"


def halt_key(job: str) -> str:
    return f"{KeyKind.HALT.value}:{job}"


def halt_task_key(task: TaskId) -> str:
    return f"{KeyKind.HALT_TASK.value}:{task.job}:{task.index}"


def restart_key(job: str, index: int | None = None) -> str:
    """:param index: of one task; None: of the job as a whole"""
    return f"{KeyKind.RESTART.value}:{job}" if index is None else f"{KeyKind.RESTART_TASK.value}:{job}:{index}"


def levels_key(worker: str) -> str:
    """:param worker: its name, or :data:`~.jobs_topic.log_levels.ALL_WORKERS`"""
    return f"{KeyKind.LEVELS.value}:{worker}"


def worker_key(worker: WorkerId) -> str:
    return f"{KeyKind.WORKER.value}:{worker}"


def task_key(task: TaskId) -> str:
    return f"{KeyKind.TASK.value}:{task.job}:{task.index}"


@lru_cache(maxsize=1_000)  # a task's end mostly comes soon after its start
def parse_key(key: bytes | None) -> Key:
    """The inverse of the functions above.

    :raises UnreadableRecordError: for any other key
    """
    try:
        text = (key or b"").decode()
        kind_name, _, name = text.partition(":")
        kind = KeyKind(kind_name)
        if kind in _OF_A_TASK:
            name, _, index = name.rpartition(":")
            parsed = Key(kind=kind, name=name, index=_index(index))
        else:
            parsed = Key(kind=kind, name=name)
    except ValueError as wrong:
        raise UnreadableRecordError(f"the key {key!r} is not one of this package's: {wrong}") from wrong
    if (kind in _OF_THE_GROUP) != (not name) or not PLANNER_INDEX <= parsed.index <= HIGHEST_INDEX:
        raise UnreadableRecordError(f"the key {key!r} is not one of this package's")
    return parsed


def _index(text: str) -> int:
    """Parse the index of a task. Python reads numbers in many forms, but compaction would take two forms of one task's
    key for different keys.

    :raises ValueError: for any but the one form
    """
    index = int(text)
    if str(index) != text:
        raise ValueError(f"an index is not written {short(text)}")
    return index
