"""A job's declared config as the fields of a form. Values that no other field can hold are written as JSON.

What a job declares is in its plan. So the API server makes the form without importing anything of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from airflow_provider.state.views.jobs_view import JobsSnapshot

_LOCAL: Final = "#/"
_DEEPEST: Final = 10
"""The most references that are followed, as they may form a circle."""


class FieldKind(str, Enum):
    """The kind of input."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"
    JSON = "json"


_KINDS: Final = {
    "string": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.FLAG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """A key of a config.

    :param required: whether it must have a value
    :param default: the declared default; None: there is none
    :param choices: the values that it may have, if they are listed
    :param about: its declared description
    """

    name: str
    kind: FieldKind
    required: bool
    default: Any = None
    choices: tuple[Any, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a job declares of its config.

    :param fields: of a form; none if the job declares no config, or if that is not known
    :param unknown: why it is not known; empty: it is
    """

    fields: tuple[ConfigField, ...] = ()
    unknown: str = ""


def declared_by(entry_point: str, jobs: JobsSnapshot) -> Declared:
    """What a group's jobs with this entry point declare, according to the last of their plans that says it."""
    named = (name for name, definition in jobs.jobs.items() if definition.entry_point == entry_point)
    plans = [plan for plan in map(jobs.plan_of, named) if plan is not None]
    if not plans:
        return Declared(
            unknown=f"there are no fields: in this group no job with the entry point {entry_point!r} has been planned"
            " yet, so what it declares is not known here"
        )
    for plan in sorted(plans, key=attrgetter("at_ms"), reverse=True):
        if plan.config_schema is not None:
            return Declared(fields=form_fields(plan.config_schema))
    return Declared(unknown="there are no fields: the job's plan does not say what config the job declares")


def form_fields(schema: Mapping[str, Any]) -> tuple[ConfigField, ...]:
    """The fields of an object that a JSON schema declares; none if the schema has no properties."""
    whole = _resolved(schema, schema)
    properties, required = whole.get("properties"), whole.get("required")
    if not isinstance(properties, Mapping):
        return ()
    needed = frozenset(required) if isinstance(required, list) else frozenset()
    return tuple(
        _field(str(name), declared if isinstance(declared, Mapping) else {}, schema, required=name in needed)
        for name, declared in properties.items()
    )


def _field(name: str, declared: Mapping[str, Any], schema: Mapping[str, Any], *, required: bool) -> ConfigField:
    value = _resolved(_one_of_two(declared), schema)
    choices = value.get("enum")
    few = tuple(choices) if isinstance(choices, list) else ()
    kind = FieldKind.CHOICE if few else _KINDS.get(str(value.get("type")), FieldKind.JSON)
    about = declared.get("description") or value.get("description") or ""
    return ConfigField(
        name=name,
        kind=kind,
        required=required,
        default=declared.get("default", value.get("default")),
        choices=few,
        about=str(about),
    )


def _one_of_two(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a value that may be null, without null; an empty schema if there are several others."""
    for word in ("anyOf", "oneOf"):
        ways = declared.get(word)
        if isinstance(ways, list):
            others = list(_not_null(ways))
            return others[0] if len(others) == 1 else {}
    return declared


def _not_null(ways: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    return (way for way in ways if isinstance(way, Mapping) and way.get("type") != "null")


def _resolved(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references within the schema; a reference to anything else gives an empty schema."""
    for _ in range(_DEEPEST):
        reference = value.get("$ref")
        if reference is None:
            return value
        found: Any = schema
        for part in str(reference).removeprefix(_LOCAL).split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return {}
        value = found
    return {}
