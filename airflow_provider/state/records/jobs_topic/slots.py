"""How many slots a worker may have, and how many of them a task takes while it runs: one, or what its config says."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any, Final

from airflow_provider.state.records.jobs_topic.checks import JobError
from airflow_provider.values.model import HIGHEST_INDEX

MOST_SLOTS: Final = 10_000
"""The most slots of a worker. A leader that shares out work by cost computes with each slot of each worker."""

SLOTS_KEY: Final = "slots"
"""The key of the number of slots in a task's configuration."""


def wanted_slots(config: Mapping[str, Any]) -> int:
    """How many slots a configuration asks for. 1 for an invalid value: in plans of earlier releases it meant something
    else.
    """
    wanted = config.get(SLOTS_KEY, 1)
    return wanted if is_number_of_slots(wanted) else 1


def check_slots(job: str, where: str, config: Mapping[str, Any]) -> None:
    """:raises JobError: if the configuration's number of slots is invalid"""
    wanted = config.get(SLOTS_KEY, 1)
    if not is_number_of_slots(wanted):
        raise JobError(
            job,
            f"{where}.{SLOTS_KEY}",
            f"{short(wanted)} must be a whole number, at least 1: the number of its worker's slots that the task takes."
            " If it means something else in this job, give it another name",
        )


def is_number_of_slots(value: object) -> bool:
    """Whether a value from a config is a valid number of slots."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= HIGHEST_INDEX
