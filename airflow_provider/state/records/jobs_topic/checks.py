"""Checks whether a job is acceptable, at submission and again where its record is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from airflow_provider.state.records.envelope import DEEPEST, dump

LONGEST_ENTRY_POINT: Final = 500
LONGEST_RUN_KEY: Final = 1_000
"""In characters. Each record of a task has it. Airflow's run ids have at most 250."""
_JOB_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")


class JobError(ValueError):
    """A job that can't be accepted; the message names the job, the field, and what to do."""

    def __init__(self, job: object, field_name: str, advice: str) -> None:
        super().__init__(f"job {job!r}, {field_name}: {advice}")
        self.job = job
        self.field_name = field_name
        self.advice = advice

    def __reduce__(self) -> tuple[type[JobError], tuple[object, str, str]]:
        return type(self), (self.job, self.field_name, self.advice)


def check_job_name(name: object) -> str:
    """Check that keys and paths can carry ``name``, and return it.

    :raises JobError: if they can't
    """
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name) or name in {".", ".."}:
        raise JobError(
            name,
            "name",
            "use 1 to 200 letters (a-z, A-Z), digits, '.', '_' or '-', and not '.' or '..':"
            " the name becomes part of Kafka keys and of paths",
        )
    return name


def json_object(job: str, field_name: str, value: object) -> dict[str, Any]:
    """Copy a JSON object, so that nobody else can change it.

    :raises JobError: if ``value`` isn't a JSON object
    """
    if not isinstance(value, Mapping):
        raise JobError(job, field_name, f"must be a JSON object, not {type(value).__name__}")
    try:
        copied: dict[str, Any] = json.loads(dump(value, deepest=DEEPEST))
    except ValueError as wrong:
        raise JobError(
            job,
            field_name,
            f"can't be written as JSON: {wrong};"
            " use only strings, finite numbers, true, false, null, lists and objects",
        ) from wrong
    return copied


def is_entry_point(text: object) -> bool:
    """Whether ``text`` has the form ``package.module:Name``; only a worker knows whether it can be imported."""
    if not isinstance(text, str) or len(text) > LONGEST_ENTRY_POINT:
        return False
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))
