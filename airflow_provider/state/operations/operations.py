"""The operations on jobs, on the loggers of their code, and on groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.state.records import Halt, LogLevel
from airflow_provider.values.model import TaskId, WorkerId

_NAMED: Final = 10


class OperationError(ValueError):
    """An operation can't be done. The message says on what, why, and what to do. Nothing has been written."""


class LostUpdateError(OperationError):
    """A job was altered, but somebody else had altered it at the same moment, and that change is undone."""


class NoJobError(OperationError):
    """The group has no such job.

    :param jobs: the jobs that it has, if known: the name may be mistyped
    """

    def __init__(self, job: str, jobs: Iterable[str] = ()) -> None:
        self.job = job
        self.jobs = tuple(sorted(jobs))
        more = ", ..." if len(self.jobs) > _NAMED else ""
        has = f"; it has {', '.join(map(repr, self.jobs[:_NAMED]))}{more}" if self.jobs else ""
        super().__init__(f"the group has no job {job!r}{has}")

    def __reduce__(self) -> tuple[type[NoJobError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.job, self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnJob:
    """An operation on a job.

    :param defined_at: the offset of the definition that the user has looked at; None: whatever the job is now
    """

    job: str
    defined_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltJob(OnJob):
    """Pause or stop a job, and keep its progress: see :class:`~airflow_provider.state.records.Halt`."""

    halt: Halt


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeJob(OnJob):
    """Run a job again after :class:`HaltJob`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTasks(OnJob):
    """Stop some tasks of a job until they are restarted: they stop and are released, and the rest of the job continues.
    See :class:`~airflow_provider.state.records.TaskHaltRecord`.

    :param tasks: their indexes
    """

    tasks: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartJob(OnJob):
    """Restart the running tasks of a job where they are, try failed ones again with all retries (KIP-745), and resume
    tasks that were stopped individually.

    :param tasks: the indexes of some tasks, -1 for the planner; None: all tasks, and the planner
    :param only_failed: only try failed tasks again; leave running tasks alone
    """

    tasks: frozenset[int] | None = None
    only_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterJob(OnJob):
    """Change the definition of a running job. It is planned again, and only tasks whose own configs change are
    restarted.

    :param config: changes of its config, by key; None removes a key, as in JSON's merge patch
    :param session_conf: changes of its Spark settings, likewise
    :param settings: new values of fields in :data:`ALTERABLE`, by name
    """

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    session_conf: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    settings: Mapping[str, int | None] = field(default_factory=dict)


ALTERABLE: Final = ("max_tasks", "retries", "retry_delay_ms", "timeout_ms", "replan_interval_ms", "stall_after_ms")
"""The numbers of a definition that can be altered while it runs, besides its config and its Spark settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogLevel:
    """Set the level of a logger of the jobs' code, in running workers and in those that start later.

    :param level: None: reset it
    :param worker: only in this one; None: in all
    """

    logger: str
    level: LogLevel | None
    worker: WorkerId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """Rebalance a group now: lost tasks no longer wait for their worker, and delayed moves happen at once."""


JobOperation = HaltJob | ResumeJob | StopTasks | RestartJob | AlterJob
Operation = JobOperation | SetLogLevel | Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of an operation.

    :param subject: a job, a logger, or the group
    :param changed: False if nothing had to be done
    :param restarted: tasks that restart where they are
    :param retried: tasks that had failed, and are tried again
    :param resumed: tasks that had been stopped individually, and run again
    :param stopped: tasks that stop and are released
    :param finished: tasks that were named, but have finished, and stay so
    :param notes: what it still waits for, and what has no effect
    """

    subject: str
    changed: bool
    restarted: tuple[TaskId, ...] = ()
    retried: tuple[TaskId, ...] = ()
    resumed: tuple[TaskId, ...] = ()
    stopped: tuple[TaskId, ...] = ()
    finished: tuple[TaskId, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "subject": self.subject,
            "changed": self.changed,
            "restarted": list(map(str, self.restarted)),
            "retried": list(map(str, self.retried)),
            "resumed": list(map(str, self.resumed)),
            "stopped": list(map(str, self.stopped)),
            "finished": list(map(str, self.finished)),
            "notes": list(self.notes),
        }
