"""The tasks into which a planner has divided a job, and what a worker runs for one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.state.records.envelope import COUNT, DEEPEST, TEXT, dump
from airflow_provider.state.records.jobs_topic.checks import JobError, json_object
from airflow_provider.state.records.jobs_topic.jobs import JobDefinition, fingerprint_of
from airflow_provider.state.records.jobs_topic.slots import SLOTS_KEY, check_slots, wanted_slots
from airflow_provider.state.records.jobs_topic.task_names import WEIGHT
from airflow_provider.state.records.plain import PlainOfJob
from airflow_provider.values.model import TaskId, WorkerId

MOST_TASKS: Final = 100_000
"""The most tasks of one plan: the most that a group was ever tested with. Each takes memory in every process that
follows the group.
"""

LARGEST_SCHEMA: Final = 16_384
"""The most bytes that a plan's declaration of its job's config has. A plan and its declaration share one record."""

_LEAST_WEIGHT: Final = 1e-15
_MOST_WEIGHT: Final = 1e15
_Weight = Annotated[float, msgspec.Meta(ge=_LEAST_WEIGHT, le=_MOST_WEIGHT)]
"""Sums and ratios of such weights are numbers, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord(PlainOfJob):
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
                known[text] = config, fingerprint_of(b"[%b,%b]" % (definition, text))
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
