"""A job as it was submitted."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from reprlib import repr as short
from typing import Annotated, Any, Final

from airflow_provider.state.records.envelope import COUNT, TEXT, check_plain, convert, dump
from airflow_provider.state.records.jobs_topic.checks import (
    LONGEST_ENTRY_POINT,
    LONGEST_RUN_KEY,
    JobError,
    check_job_name,
    is_entry_point,
    json_object,
)
from airflow_provider.state.records.jobs_topic.session_conf import check_session_conf
from airflow_provider.values.model import TaskId

_LONGEST_WAIT_MS: Final = 2**52
"""Added to the time of day, it is still a number that a record may have."""


_OPTIONAL_NUMBERS: Final = (
    ("max_tasks", 1, sys.maxsize),
    ("retries", 0, sys.maxsize),
    ("timeout_ms", 1, _LONGEST_WAIT_MS),
    ("replan_interval_ms", 1, _LONGEST_WAIT_MS),
    ("stall_after_ms", 1, _LONGEST_WAIT_MS),
    ("removal", 0, sys.maxsize),
)
"""Fields of a job that may be None, with the least and the most that they may be."""


class TaskKind(str, Enum):
    """Whether a task ends by itself."""

    BATCH = "batch"
    """Bounded: ends with a result."""
    STREAMING = "streaming"
    """Unbounded: runs until it is stopped, and continues from its checkpoint wherever it is started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """A job as it was submitted.

    :param name: 1 to 200 letters, digits, ``.``, ``_`` and ``-``, because it becomes part of Kafka keys and of paths
    :param entry_point: ``package.module:Class`` (or a decorated function), importable on the workers
    :param config: any JSON object, given to the job's ``plan``
    :param max_tasks: the most tasks that a plan may have; None: nobody has set it, and a plan has as many as it needs
        (:attr:`parts`). None is not written
    :param run_key: the name of one run of the job, at most 1,000 characters; the same definition with a new key runs
        again
    :param kind: of its tasks
    :param retries: how often a failed task is run again; None: as its kind says (:meth:`retries_of`). None is not
        written, because older releases take what is missing for 0
    :param retry_delay_ms: the wait before the first of these; then it grows
        (:mod:`airflow_provider.worker.tasks.runs.retry_pauses`)
    :param timeout_ms: an attempt of a task that takes longer is stopped and has failed; None: no limit
    :param session_conf: settings for the session of each task, from its next start on
    :param replan_interval_ms: plan again after so long, for jobs that watch for changes; None: plan once
    :param stall_after_ms: a stream of it counts as stalled when it has not moved for so long; None: this follows from
        how long its own batches take
    :param submitted_at_ms: wall clock, milliseconds since 1970
    :param submitted_by: who submitted it, for people
    :param removal: the offset of the last removal of a job of this name before this one was submitted, if one is known;
        set when the record is written. Statements about the removed job do not apply to this one
    :param basis: the fingerprint of the definition from which this one was first altered. It identifies the tasks, so
        that those with an unchanged config of their own continue. Empty: not altered since it was submitted
    :param fingerprint: a hash of what is to run, and of the removal. It does not include the run key, the retry policy,
        Spark's settings, who submitted it, and when
    :raises JobError: if it is not acceptable
    """

    name: str
    entry_point: str
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    max_tasks: int | None = None
    run_key: str = ""
    kind: TaskKind = TaskKind.BATCH
    retries: int | None = None
    retry_delay_ms: int = 0
    timeout_ms: int | None = None
    replan_interval_ms: int | None = None
    stall_after_ms: int | None = None
    session_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    submitted_at_ms: Annotated[int, COUNT] = 0
    submitted_by: str = ""
    removal: int | None = None
    basis: Annotated[str, TEXT] = ""
    fingerprint: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        check_job_name(self.name)
        if not is_entry_point(self.entry_point):
            raise JobError(
                self.name,
                "entry_point",
                f"{str(self.entry_point)[:100]!r} must have the shape 'package.module:ClassOrFunction', and at most"
                f" {LONGEST_ENTRY_POINT} characters",
            )
        object.__setattr__(self, "config", json_object(self.name, "config", self.config))
        self._check_number("retry_delay_ms", self.retry_delay_ms, 0, most=_LONGEST_WAIT_MS)
        for name, least, most in _OPTIONAL_NUMBERS:
            if (value := getattr(self, name)) is not None:
                self._check_number(name, value, least, most=most)
        if self.timeout_ms is not None and self.kind is TaskKind.STREAMING:
            raise JobError(self.name, "timeout_ms", "does not apply to a job whose tasks have no end: leave it out")
        check_session_conf(self.name, self.session_conf)
        object.__setattr__(self, "session_conf", dict(self.session_conf))
        if not isinstance(self.run_key, str):
            raise JobError(self.name, "run_key", f"{self.run_key!r} must be a string, such as an Airflow run id")
        if len(self.run_key) > LONGEST_RUN_KEY:
            raise JobError(
                self.name, "run_key", f"{self.run_key[:50]!r}... must have at most {LONGEST_RUN_KEY} characters"
            )
        numbers = ("max_tasks", "retries", "retry_delay_ms", "timeout_ms", "replan_interval_ms", "stall_after_ms")
        for name in ("run_key", "submitted_by", "basis", *numbers):
            self._check_plain(name, getattr(self, name))
        runs = [self.name, self.entry_point, self.config, self.parts, self.kind.value]
        object.__setattr__(
            self, "fingerprint", fingerprint_of(dump(runs if self.removal is None else [*runs, self.removal]))
        )

    def _check_number(self, name: str, value: object, least: int, *, most: int = sys.maxsize) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise JobError(self.name, name, f"{short(value)} must be a whole number, at least {least}")
        if value > most:
            raise JobError(self.name, name, f"{short(value)} must be at most {most}")

    def _check_plain(self, name: str, value: object) -> None:
        try:
            check_plain(value)
        except ValueError as wrong:
            raise JobError(self.name, name, str(wrong)) from None

    @property
    def bounded(self) -> bool:
        """Whether a run of this job ends by itself."""
        return self.kind is TaskKind.BATCH and self.replan_interval_ms is None

    @property
    def parts(self) -> int:
        """Into how many tasks a planner divides work that fits any number of them: one, unless somebody has set it."""
        return 1 if self.max_tasks is None else self.max_tasks

    def retries_of(self, task: TaskId) -> int | None:
        """How often the task or planner is run again after it has failed; None: as often as it takes. What has no end
        is expected to go on: a stream, and the planner that plans for one again and again.
        """
        if self.retries is not None:
            return self.retries
        has_end = self.kind is TaskKind.BATCH or (task.is_planner and self.replan_interval_ms is None)
        return 0 if has_end else None

    @property
    def tasks_basis(self) -> str:
        """What its tasks' fingerprints are computed from, besides their own configs."""
        return self.basis or self.fingerprint

    def same_as(self, other: JobDefinition) -> bool:
        """Whether submitting this instead of ``other`` would change nothing."""
        return self._asked() == other._asked()

    def _asked(self) -> dict[str, Any]:
        asked = self.to_json()
        for name in ("submitted_at_ms", "submitted_by", "removal", "basis"):
            asked.pop(name, None)
        return asked

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "entry_point": self.entry_point,
            "config": dict(self.config),
            **({} if self.max_tasks is None else {"max_tasks": self.max_tasks}),
            "run_key": self.run_key,
            "kind": self.kind.value,
            **({} if self.retries is None else {"retries": self.retries}),
            "retry_delay_ms": self.retry_delay_ms,
            "timeout_ms": self.timeout_ms,
            "replan_interval_ms": self.replan_interval_ms,
            **({} if self.stall_after_ms is None else {"stall_after_ms": self.stall_after_ms}),
            **({"session_conf": dict(self.session_conf)} if self.session_conf else {}),
            "submitted_at_ms": self.submitted_at_ms,
            "submitted_by": self.submitted_by,
            "removal": self.removal,
            **({"basis": self.basis} if self.basis else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> JobDefinition:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        return convert(data, cls)


def fingerprint_of(text: bytes) -> str:
    """A hash of what is to run."""
    return hashlib.sha256(text).hexdigest()[:16]
