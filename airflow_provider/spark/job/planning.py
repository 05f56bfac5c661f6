"""A job's plan, checked before it is written to the jobs topic."""

from __future__ import annotations

import json
from typing import Any, Final

from airflow_provider.spark.job import JobContext, SparkJob
from airflow_provider.spark.job.checkpoint_folder import CheckpointError, check_segment
from airflow_provider.spark.job.config_schema import ConfigError, SchemaError, check_config
from airflow_provider.state.records import CHECKPOINT_KEY, SLOTS_KEY
from airflow_provider.state.records.jobs_topic.slots import is_number_of_slots
from airflow_provider.state.records.json_value import NotJsonError, to_json_value

MAX_PLAN_BYTES: Final = 900_000
"""A plan is one record, and by default a broker accepts records of up to 1 MiB (``message.max.bytes``)."""

_MEASURED: Final = 4
"""How many times too long a plan may be for its length to be told."""

SESSION_KEY: Final = "needs_session"
"""In the configuration of a task that needs none: false."""


class PlanError(Exception):
    """A plan can't be carried out: a fault of the job's code, so another try does not help."""

    def __init__(self, job: str, problem: str) -> None:
        super().__init__(f"the plan of job {job!r} {problem}")
        self.job = job


def make_plan(job: SparkJob, context: JobContext) -> list[dict[str, Any]]:
    """Ask ``job`` for its plan, and check it.

    :raises PlanError: if the config is not as the job declares it; if the plan is not a list of JSON objects, is too
        long, or gives two tasks the same checkpoint; or if the job's ``slots`` or ``warm_up`` are invalid
    :raises BaseException: what ``plan()`` raises
    """
    warm_up: object = getattr(job, "warm_up", None)
    if warm_up is not None and not callable(warm_up):
        raise PlanError(
            context.name,
            "can't be carried out: warm_up must be a function of the session and the TaskContext, or None,"
            f" not a {type(warm_up).__qualname__}",
        )
    try:
        check_config(context.name, job, context.config)
    except (ConfigError, SchemaError) as wrong:
        raise PlanError(context.name, f"can't be made: {wrong}") from wrong
    configs: Any = job.plan(context)
    if not isinstance(configs, list):
        raise PlanError(context.name, f"must be a list of task configurations, not a {type(configs).__qualname__}")
    of_job = {**_slots_of(context.name, job), **({} if job.needs_session else {SESSION_KEY: False})}
    plan: list[dict[str, Any]] = []
    size = 0
    for index, config in enumerate(configs):
        plan.append({**of_job, **_checked(context.name, index, config)})
        size += len(json.dumps(plan[-1]))
        if size > _MEASURED * MAX_PLAN_BYTES:
            check_plan_size(context.name, size, at_least=True)
    check_plan_size(context.name, len(json.dumps(plan)))
    return _without_shared_checkpoints(context.name, plan)


def _slots_of(name: str, job: SparkJob) -> dict[str, int]:
    """The part of a configuration with the job's number of slots, for tasks that have no number of their own."""
    slots: object = job.slots
    if not is_number_of_slots(slots):
        raise PlanError(name, f"can't be carried out: slots must be a whole number, at least 1, not {slots!r}")
    return {} if slots == 1 else {SLOTS_KEY: job.slots}


def check_plan_size(job: str, size: int, *, at_least: bool = False) -> None:
    """:raises PlanError: if a plan of ``size`` bytes as JSON does not fit into a record"""
    if size > MAX_PLAN_BYTES:
        length = f"at least {size}" if at_least else size
        raise PlanError(
            job,
            f"has {length} bytes as JSON, more than the {MAX_PLAN_BYTES} that a record has room for;"
            " put what is long into a file or table, and its name into the plan",
        )


def _checked(job: str, index: int, config: object) -> dict[str, Any]:
    if not isinstance(config, dict):
        raise PlanError(job, f"has at [{index}] a {type(config).__qualname__}; each task's configuration is a dict")
    try:
        plain: dict[str, Any] = to_json_value(config)
    except NotJsonError as error:
        raise PlanError(job, f"has at [{index}] what JSON cannot carry: {error}") from error
    return plain


def _without_shared_checkpoints(job: str, configs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    for index, config in enumerate(configs):
        key = config.get(CHECKPOINT_KEY)
        if key is None:
            continue
        try:
            check_segment(CHECKPOINT_KEY, key)
        except CheckpointError as error:
            raise PlanError(job, f"has at [{index}] a bad {CHECKPOINT_KEY}: {error}") from error
        if key in seen:
            raise PlanError(job, f"gives the tasks {seen[key]} and {index} the same {CHECKPOINT_KEY} {key!r}")
        seen[key] = index
    return configs
