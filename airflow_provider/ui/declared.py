"""What jobs declare of their configs, as far as the API server may import them: it runs nobody's code by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.spark.config_schema import SchemaError, check_config, json_schema_of
from airflow_provider.spark.entry_point import EntryPointError, load_job
from airflow_provider.ui.views.config_form import ConfigField, form_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """:param fields: of a form; none: any config will do, or it is not known here what must be in it
    :param unknown: why it is not known here; empty: it is
    """

    fields: tuple[ConfigField, ...] = ()
    unknown: str = ""


def configured_prefixes() -> list[str]:
    """The import prefixes of jobs that may be imported here."""
    from airflow.configuration import conf

    named: Any = conf.getlist("cooperative_spark", "page_entry_points", fallback=[])
    return list(named)


def declared_by(entry_point: str, allowed: Sequence[str]) -> Declared:
    """:param allowed: import prefixes; an entry point within one of them is imported"""
    if not allowed:
        return Declared(unknown="this page may import no job: page_entry_points in [cooperative_spark] names none")
    try:
        schema = json_schema_of(load_job(entry_point, allowed))
    except (EntryPointError, SchemaError) as unknown:
        return Declared(unknown=str(unknown))
    return Declared(fields=() if schema is None else form_fields(schema))


def check_here(job: str, entry_point: str, config: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """See that a config is as its job declares it, if that may be imported here: the worker that plans it does in any
    case.

    :raises ConfigError: if it is not
    :raises SchemaError: if nobody could tell
    """
    try:
        found = load_job(entry_point, allowed)
    except EntryPointError:
        return
    check_config(job, found, config)
