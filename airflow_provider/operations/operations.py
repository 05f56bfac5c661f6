"""What can be asked of a job that was submitted, of the workers that run its code, and of a group as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.records import Halt, LogLevel


class OperationError(ValueError):
    """What was asked can't be done; says of what, why, and what to do. Nothing has been written."""


class NoJobError(OperationError):
    """The group has no such job."""

    def __init__(self, job: str) -> None:
        super().__init__(f"the group has no job {job!r}")
        self.job = job

    def __reduce__(self) -> tuple[type[NoJobError], tuple[str]]:
        return type(self), (self.job,)


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltJob:
    """Have it run no more for now, and forget nothing: see :class:`~airflow_provider.records.Halt`."""

    job: str
    halt: Halt


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeJob:
    """Have it run again after :class:`HaltJob`."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTasks:
    """Have some tasks of a job run no more, until somebody has them restarted: they stop and are given up, and the rest
    of the job goes on. See :class:`~airflow_provider.records.TaskHaltRecord`.

    :param tasks: their indexes
    """

    job: str
    tasks: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob:
    """Have what runs of it start anew where it is, what has failed tried again, with all retries (KIP-745), and single
    tasks that were stopped go on.

    :param tasks: the indexes of some tasks, -1 for the planner; None: all, and the planner
    :param only_failed: leave alone what has not failed
    """

    job: str
    tasks: frozenset[int] | None = None
    only_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterJob:
    """Define it otherwise while it runs. It is planned anew, and those of its tasks start anew whose own configs become
    others; all others go on.

    :param config: changes of its config, by key: None takes a key away, as in JSON's merge patch
    :param settings: new values for others of :data:`ALTERABLE`, by name
    """

    job: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    settings: Mapping[str, int | None] = field(default_factory=dict)


ALTERABLE: Final = ("max_tasks", "retries", "retry_delay_ms", "timeout_ms", "replan_interval_ms")
"""The fields of a definition, besides its config, that can be altered while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogLevel:
    """Have a logger of the jobs' code write from this level on, in workers that run and that start.

    :param level: None: as it was before anybody asked
    :param worker: in this one only; None: in all
    """

    logger: str
    level: LogLevel | None
    worker: WorkerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """Have a group go through a round now. What waits for something waits no longer: lost tasks for their worker, the
    next moves for their time.
    """


JobOperation = HaltJob | ResumeJob | StopTasks | RestartJob | AlterJob
Operation = JobOperation | SetLogLevel | Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it.

    :param subject: what it was about: a job, a logger, or the group
    :param changed: False if it was so already
    :param restarted: what runs, or waits for its turn, and starts anew where it is
    :param retried: what had failed, and is tried again
    :param resumed: what had been stopped, and runs again
    :param stopped: what stops, and is given up
    :param finished: what was named and has finished: it stays so
    """

    subject: str
    changed: bool
    restarted: tuple[TaskId, ...] = ()
    retried: tuple[TaskId, ...] = ()
    resumed: tuple[TaskId, ...] = ()
    stopped: tuple[TaskId, ...] = ()
    finished: tuple[TaskId, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "subject": self.subject,
            "changed": self.changed,
            "restarted": list(map(str, self.restarted)),
            "retried": list(map(str, self.retried)),
            "resumed": list(map(str, self.resumed)),
            "stopped": list(map(str, self.stopped)),
            "finished": list(map(str, self.finished)),
        }
