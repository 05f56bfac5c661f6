"""The configs that jobs declare. The API server only imports jobs that its administrator allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider.spark.config_schema import SchemaError, check_config, json_schema_of
from airflow_provider.spark.entry_point import EntryPointError, EntryPointNotAllowedError, JobCodeError, load_job
from airflow_provider.ui.views.config_form import ConfigField, form_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a job declares of its config.

    :param fields: of a form; none if the job declares no config, or its declaration is not known here
    :param unknown: why it is not known here; empty: it is
    """

    fields: tuple[ConfigField, ...] = ()
    unknown: str = ""


def configured_prefixes() -> list[str]:
    """Import prefixes of jobs that the API server may import."""
    from airflow.configuration import conf

    named: Any = conf.getlist("cooperative_spark", "page_entry_points", fallback=[])
    return list(named)


def declared_by(entry_point: str, allowed: Sequence[str]) -> Declared:
    """What a job declares, if it may be imported here.

    :param allowed: import prefixes; an entry point within one of them is imported
    """
    try:
        schema = json_schema_of(load_job(entry_point, allowed))
    except EntryPointNotAllowedError:
        allows = f"only {', '.join(allowed)}" if allowed else "no jobs"
        return Declared(
            unknown="the job's declaration can't be read here: page_entry_points in [cooperative_spark] allows"
            f" {allows}"
        )
    except (EntryPointError, SchemaError) as unknown:
        return Declared(unknown=str(unknown))
    return Declared(fields=() if schema is None else form_fields(schema))


def check_here(job: str, entry_point: str, config: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Check a config against its job's declaration, if the job may be imported here. The worker that plans it checks in
    any case.

    :raises ConfigError: if it does not match
    :raises SchemaError: if the declaration itself is wrong
    :raises JobCodeError: if the job is here, but its code fails while it is imported
    """
    try:
        found = load_job(entry_point, allowed)
    except JobCodeError:
        raise
    except EntryPointError:
        return
    check_config(job, found, config)
