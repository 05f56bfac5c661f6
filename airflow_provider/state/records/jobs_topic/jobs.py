"""The records of the jobs topic: what is to run."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from reprlib import repr as short
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.state.records.envelope import COUNT, DEEPEST, TEXT, check_plain, convert, dump
from airflow_provider.state.records.jobs_topic.checks import (
    LONGEST_ENTRY_POINT,
    LONGEST_RUN_KEY,
    JobError,
    check_job_name,
    is_entry_point,
    json_object,
)
from airflow_provider.state.records.jobs_topic.session_conf import check_session_conf
from airflow_provider.state.records.jobs_topic.slots import SLOTS_KEY, check_slots, wanted_slots
from airflow_provider.state.records.jobs_topic.task_names import WEIGHT
from airflow_provider.values.model import TaskId, WorkerId

MOST_TASKS: Final = 100_000
"""The most tasks of one plan: the most that a group was ever tested with. Each takes memory in every process that
follows the group.
"""


LARGEST_SCHEMA: Final = 16_384
"""The most bytes that a plan's declaration of its job's config has. A plan and its declaration share one record."""


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


_LEAST_WEIGHT: Final = 1e-15
_MOST_WEIGHT: Final = 1e15
_Weight = Annotated[float, msgspec.Meta(ge=_LEAST_WEIGHT, le=_MOST_WEIGHT)]
"""Sums and ratios of such weights are numbers, too."""


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
        (:mod:`airflow_provider.worker.tasks.runs.pauses`)
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
        object.__setattr__(self, "fingerprint", _hash(dump(runs if self.removal is None else [*runs, self.removal])))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """The tasks of a job's run: a config for each. Made with :meth:`of`, which checks it against the definition.

    :param run_key: of the definition that was planned
    :param definition: the fingerprint of that definition
    :param planned_by: the worker whose planner made it
    :param at_ms: wall clock, milliseconds since 1970
    :param basis: that of the definition, if it was altered
    :param configs: equal ones are one object
    :param stateful: whether the tasks have something to warm up before they move; not part of their fingerprints
    :param large: the number of slots of each task that takes more than one, by index
    :param weights: how much work each task is, None if the plan does not say; empty: it says so of none. Not part of
        their fingerprints either: a task that is now thought to be more work continues
    :param config_schema: what the job declares of its config, as a JSON schema, for forms; empty: nothing; None: it is
        not known
    :param fingerprints: for each task a hash of the definition and the task's own config: a task whose fingerprint is
        the same in a new plan need not be restarted
    :raises JobError: if it has too many tasks, a config that can't be written as JSON, or a declaration that is too
        long
    """

    job: str
    run_key: Annotated[str, TEXT]
    definition: Annotated[str, TEXT]
    configs: tuple[Mapping[str, Any], ...]
    planned_by: Annotated[WorkerId, TEXT]
    at_ms: Annotated[int, COUNT]
    stateful: bool = False
    basis: Annotated[str, TEXT] = ""
    weights: tuple[_Weight | None, ...] = ()
    config_schema: Mapping[str, Any] | None = None
    fingerprints: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())
    large: Mapping[int, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Keep equal configs once: large plans that were small when compressed mostly repeat themselves."""
        if len(self.configs) > MOST_TASKS:
            raise JobError(
                self.job,
                "plan",
                f"has {len(self.configs)} tasks, but a plan has at most {MOST_TASKS}: put more work into each task, or"
                " submit several jobs",
            )
        self._check_schema()
        known: dict[bytes, tuple[Mapping[str, Any], str]] = {}
        definition = dump(self.basis or self.definition)
        tasks = []
        for index, config in enumerate(self.configs):
            try:
                text = dump(config, deepest=DEEPEST)
            except ValueError as wrong:
                raise JobError(self.job, f"configs[{index}]", str(wrong)) from wrong
            if text not in known:
                known[text] = config, _hash(b"[%b,%b]" % (definition, text))
            tasks.append(known[text])
        object.__setattr__(self, "configs", tuple(config for config, _ in tasks))
        object.__setattr__(self, "fingerprints", tuple(fingerprint for _, fingerprint in tasks))
        slots = ((index, wanted_slots(config)) for index, config in enumerate(self.configs) if SLOTS_KEY in config)
        object.__setattr__(self, "large", {index: wanted for index, wanted in slots if wanted > 1})

    def _check_schema(self) -> None:
        if self.config_schema is None:
            return
        try:
            size = len(dump(self.config_schema, deepest=DEEPEST))
        except ValueError as wrong:
            raise JobError(self.job, "config_schema", str(wrong)) from wrong
        if size > LARGEST_SCHEMA:
            raise JobError(self.job, "config_schema", f"has {size} bytes, more than {LARGEST_SCHEMA}")

    @classmethod
    def of(
        cls,
        definition: JobDefinition,
        configs: Iterable[Mapping[str, Any]],
        *,
        planned_by: WorkerId,
        at_ms: int,
        stateful: bool = False,
        config_schema: Mapping[str, Any] | None = None,
    ) -> PlanRecord:
        """Check what a planner returned.

        :param stateful: whether its tasks have something to warm up before they move
        :param config_schema: what the job declares of its config
        :raises JobError: if it has more than ``max_tasks`` tasks, a config that isn't a JSON object, or an invalid
            number of slots or weight
        """
        if isinstance(configs, (str, bytes, Mapping)) or not isinstance(configs, Iterable):
            raise JobError(definition.name, "plan", f"must return a list of objects, not {type(configs).__name__}")
        checked = [json_object(definition.name, f"plan()[{i}]", config) for i, config in enumerate(configs)]
        for i, config in enumerate(checked):
            check_slots(definition.name, f"plan()[{i}]", config)
        weights = tuple(_taken_weight(definition.name, i, config) for i, config in enumerate(checked))
        if not _are_allowed(len(checked), definition):
            raise JobError(
                definition.name,
                "plan",
                f"returned {len(checked)} tasks, but max_tasks is {definition.max_tasks}:"
                " put more work into each task or submit the job with a higher max_tasks",
            )
        return cls(
            job=definition.name,
            run_key=definition.run_key,
            definition=definition.fingerprint,
            configs=tuple(checked),
            planned_by=planned_by,
            at_ms=at_ms,
            stateful=stateful,
            basis=definition.basis,
            weights=weights if any(weights) else (),
            config_schema=config_schema,
        )

    def weight_of(self, index: int) -> float | None:
        """How much work a task is; None: the plan does not say."""
        return self.weights[index] if index < len(self.weights) else None

    def config_of(self, index: int) -> Mapping[str, Any]:
        """The task's config as the planner returned it."""
        weight = self.weight_of(index)
        return self.configs[index] if weight is None else {**self.configs[index], WEIGHT: weight}

    def holds_for(self, definition: JobDefinition) -> bool:
        """Whether its tasks continue under ``definition``: it plans that one, or one from which that was altered, and
        no plan was made since.
        """
        same = self.run_key == definition.run_key and (self.basis or self.definition) == definition.tasks_basis
        return self.is_of(definition) or (same and bool(definition.basis))

    def is_of(self, definition: JobDefinition) -> bool:
        """Whether it plans that definition in its present run, with no more tasks than that allows."""
        planned = self.run_key == definition.run_key and self.definition == definition.fingerprint
        return planned and _are_allowed(len(self.configs), definition)

    def says_the_same(self, other: PlanRecord) -> bool:
        """Whether both say the same about the job, whoever made them, and when."""
        return self._said() == other._said()

    def _said(self) -> tuple[object, ...]:
        return self.configs, self.stateful, self.weights, self.config_schema

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "run_key": self.run_key,
            "definition": self.definition,
            "configs": [dict(config) for config in self.configs],
            "planned_by": self.planned_by,
            "at_ms": self.at_ms,
            "stateful": self.stateful,
            **({"basis": self.basis} if self.basis else {}),
            **({"weights": list(self.weights)} if self.weights else {}),
            **({} if self.config_schema is None else {"config_schema": dict(self.config_schema)}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlanRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        plan = convert(data, cls)
        check_job_name(plan.job)
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWork:
    """What a worker runs for a task (or planner) that it was assigned.

    :param config: the task's own config; for a planner the job's
    :param fingerprint: a hash of what is to run; if it changes, the task has to be started again
    :param weight: how much work it is, if its plan says so
    """

    task: TaskId
    definition: JobDefinition
    config: Mapping[str, Any]
    fingerprint: str
    weight: float | None = None

    @property
    def slots(self) -> int:
        """How many slots it takes, if its worker has so many; a planner takes none."""
        return 0 if self.task.is_planner else wanted_slots(self.config)

    def is_same(self, other: TaskWork) -> bool:
        """Whether both mean the same work in the same run, even if the definitions differ."""
        return (self.fingerprint, self.definition.run_key) == (other.fingerprint, other.definition.run_key)


class ControlAction(str, Enum):
    """What the people who run a group may ask of a worker."""

    DRAIN = "drain"
    """Leave the group when the running tasks have finished."""
    STOP = "stop"
    """Stop the running tasks and leave the group."""
    LEAVE_SOON = "leave soon"
    """Leave the group when others have learned and taken over its tasks. Where tasks are not learned, it drains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Soon:
    """The field by which a request to leave soon differs in JSON from one to drain."""

    learned_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A request to one worker.

    :param at_ms: wall clock, milliseconds since 1970; for people. Whether the worker had begun by then is decided by
        offsets, as its clock is another one
    :param within_ms: so long after it has read this, the worker stops what still runs and leaves; None: no limit
    :param by: who asks, for people
    """

    worker: Annotated[WorkerId, TEXT]
    action: ControlAction
    at_ms: Annotated[int, COUNT]
    within_ms: Annotated[int, COUNT] | None = None
    by: Annotated[str, TEXT] = ""

    def to_json(self) -> dict[str, Any]:
        # As a request to drain for releases without learning, which could not read an unknown action.
        soon = self.action is ControlAction.LEAVE_SOON
        return {
            "worker": self.worker,
            "action": (ControlAction.DRAIN if soon else self.action).value,
            "at_ms": self.at_ms,
            **({"learned_first": True} if soon else {}),
            **({} if self.within_ms is None else {"within_ms": self.within_ms}),
            **({"by": self.by} if self.by else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ControlRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        wish = convert(data, cls)
        soon = convert(data, _Soon).learned_first
        return replace(wish, action=ControlAction.LEAVE_SOON) if soon else wish


def _are_allowed(tasks: int, definition: JobDefinition) -> bool:
    return definition.max_tasks is None or tasks <= definition.max_tasks


def _taken_weight(job: str, index: int, config: dict[str, Any]) -> float | None:
    """Remove the weight from a task's config and return it."""
    if WEIGHT not in config:
        return None
    weight = config.pop(WEIGHT)
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not is_number or not _LEAST_WEIGHT <= weight <= _MOST_WEIGHT:
        raise JobError(
            job,
            f"plan()[{index}]",
            f"has the {WEIGHT} {short(weight)}: it must be a number from {_LEAST_WEIGHT:g} to {_MOST_WEIGHT:g}, such as"
            " the seconds or the rows that the task takes",
        )
    return float(weight)


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]
