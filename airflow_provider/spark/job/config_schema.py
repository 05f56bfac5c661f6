"""Checks the config of a job against what the job declares, and makes a JSON schema of the declaration.

A job declares its config by ``config_schema``: a JSON schema, a dataclass or a pydantic model. The config is checked
when the job is submitted, if the job's module is there, and by the worker that plans it. Errors name the field, but do
not repeat values, which may be secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from airflow_provider.spark.job import SparkJob
from airflow_provider.spark.job.loading import EntryPointError, JobCodeError, load_job
from airflow_provider.spark.raised import Naming
from airflow_provider.state.records.jobs_topic.plans import LARGEST_SCHEMA
from airflow_provider.state.records.json_value import NotJsonError, to_small_json_value

log = logging.getLogger(__name__)

_WHOLE: Final = "config"
_SAYS_NO_VALUE: Final = frozenset({"required", "additionalProperties", "dependentRequired"})
"""The errors of ``jsonschema`` about these contain only keys."""
_HAS_THE_VALUE: Final = "Invalid enum value "
"""How an error of ``msgspec`` begins that contains the value."""


class FieldProblem(NamedTuple):
    """What is wrong with a field of a config. A nested field is written ``table.name``."""

    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


class ConfigError(ValueError):
    """A config is not as its job declares it."""

    def __init__(self, job: str, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__(f"the config of job {job!r} is not as the job declares it: {'; '.join(map(str, problems))}")
        self.job = job
        self.problems = problems

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, tuple[FieldProblem, ...]]]:
        return type(self), (self.job, self.problems)


class SchemaError(TypeError):
    """No config can be checked against this declaration: a fault of the job's code."""


def check_config(name: str, job: SparkJob, config: Mapping[str, Any]) -> None:
    """Check that the config is as the job declares it. A job that declares nothing accepts any config.

    :param name: the job's name
    :raises ConfigError: if it is not, naming the fields
    :raises SchemaError: if the declaration is invalid, or its code fails
    """
    with _failing_by_name(job):
        problems = tuple(problems_of(job, config))
    if problems:
        raise ConfigError(name, problems)


def check_config_here(
    name: str, entry_point: str, config: Mapping[str, Any], *, allowed: Iterable[str] | None = None
) -> str | None:
    """The same when a job is submitted, by its entry point. The worker that plans the job checks the config in any
    case.

    :param allowed: import prefixes; None: import the job in any case. Only for an entry point that the caller has
        named, because one from a topic was chosen by somebody else
    :returns: why it could not be checked, if the job or a module that it needs is not here; None: it was checked
    :raises JobCodeError: if the job is here, but its code fails while it is imported
    :raises ConfigError: as :func:`check_config`
    :raises SchemaError: as :func:`check_config`
    """
    try:
        job = load_job(entry_point, [entry_point.partition(":")[0]] if allowed is None else allowed)
    except JobCodeError:
        raise
    except EntryPointError as elsewhere:
        return str(elsewhere)
    check_config(name, job, config)
    return None


def problems_of(job: SparkJob, config: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """What is wrong with a config; nothing if it is as declared."""
    declared: Any = job.config_schema
    if declared is None:
        return iter(())
    if isinstance(declared, Mapping):
        return _by_schema(declared, config)
    if isinstance(declared, type) and is_dataclass(declared):
        return _by_dataclass(declared, config)
    if _is_model(declared):
        return _by_model(declared, config)
    raise _none_of_the_three(job)


def json_schema_of(job: SparkJob) -> dict[str, Any] | None:
    """The job's declaration as a JSON schema, for a form; None: it declares nothing.

    :raises SchemaError: as :func:`check_config`
    """
    with _failing_by_name(job):
        return _json_schema_of(job)


def config_schema_to_publish(job: SparkJob, mask: Callable[[str], str] = str) -> dict[str, Any] | None:
    """The declaration as the plan's record has it, empty if the job declares nothing. So others can make a form of it
    without importing the job. None: no record takes it.

    :param mask: removes secrets from what the log says of that
    """
    try:
        with _failing_by_name(job, NotJsonError):
            schema: dict[str, Any] = to_small_json_value(_json_schema_of(job) or {}, LARGEST_SCHEMA)
    except (SchemaError, NotJsonError) as wrong:
        log.warning(
            "There is no form for the config of %s: its declaration %s", type(job).__qualname__, mask(str(wrong))
        )
        return None
    return schema


def _failing_by_name(job: SparkJob, *passing: type[Exception]) -> Naming:
    """Name the declaration whose code fails: a property, a validator of a model, ``__post_init__`` of a dataclass."""
    of = f"{type(job).__qualname__}.config_schema"
    return Naming(lambda said: SchemaError(f"{of} can't be used: its code failed with {said}"), SchemaError, *passing)


def _json_schema_of(job: SparkJob) -> dict[str, Any] | None:
    declared: Any = job.config_schema
    if declared is None:
        return None
    if isinstance(declared, Mapping):
        return dict(declared)
    if isinstance(declared, type) and is_dataclass(declared):
        return msgspec.json.schema(declared)
    if _is_model(declared):
        schema: dict[str, Any] = declared.model_json_schema()
        return schema
    raise _none_of_the_three(job)


def _is_model(declared: object) -> bool:
    """Whether it is a pydantic model, judged by its methods: pydantic need not be installed."""
    return isinstance(declared, type) and hasattr(declared, "model_validate") and hasattr(declared, "model_json_schema")


def _none_of_the_three(job: SparkJob) -> SchemaError:
    kind = type(job.config_schema).__qualname__
    return SchemaError(
        f"{type(job).__qualname__}.config_schema must be a JSON schema (a dict), a dataclass or a pydantic model, not a"
        f" {kind}"
    )


def _by_schema(schema: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[FieldProblem]:
    from jsonschema import exceptions, validators

    validator = validators.validator_for(schema)
    try:
        validator.check_schema(schema)
    except exceptions.SchemaError as wrong:
        raise SchemaError(f"config_schema is no JSON schema: {wrong.message}") from wrong
    for error in validator(schema).iter_errors(dict(config)):
        if error.validator in _SAYS_NO_VALUE:
            reason = error.message
        else:
            reason = f"must have {error.validator} {error.validator_value!r}"
        yield FieldProblem(_path(error.absolute_path), reason)


def _by_dataclass(declared: type, config: Mapping[str, Any]) -> Iterator[FieldProblem]:
    known = {field.name: field for field in fields(declared) if field.init}
    types = get_type_hints(declared, include_extras=True)
    wrong = [
        FieldProblem(key, f"is none of its fields, which are {', '.join(known)}")
        for key in sorted(config.keys() - known.keys())
    ]
    # Field by field, because msgspec reports only the first error of an object.
    for name, field in known.items():
        if name in config:
            wrong += _by_type(types[name], config[name], within=name)
        elif field.default is MISSING and field.default_factory is MISSING:
            wrong.append(FieldProblem(name, "is missing"))
    return iter(wrong or _by_type(declared, dict(config), within=""))


def _by_type(declared: Any, value: Any, *, within: str) -> Iterator[FieldProblem]:
    try:
        msgspec.convert(value, declared)
    except msgspec.ValidationError as wrong:
        reason, _, path = str(wrong).partition(" - at `$")
        if reason.startswith(_HAS_THE_VALUE):
            reason = "is none of the values that it can have"
        yield FieldProblem((within + path).strip(".`") or _WHOLE, reason)


def _by_model(declared: Any, config: Mapping[str, Any]) -> Iterator[FieldProblem]:
    from pydantic import ValidationError

    try:
        declared.model_validate(dict(config))
    except ValidationError as wrong:
        for error in wrong.errors(include_url=False, include_input=False, include_context=False):
            yield FieldProblem(_path(error["loc"]), error["msg"])


def _path(parts: Any) -> str:
    return ".".join(map(str, parts)) or _WHOLE
