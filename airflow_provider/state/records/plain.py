"""Values of records whose JSON has the names of their fields."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from airflow_provider.state.records.envelope import convert
from airflow_provider.state.records.jobs_topic.checks import check_job_name

Self = TypeVar("Self", bound="Plain")
SelfOfJob = TypeVar("SelfOfJob", bound="PlainOfJob")


class Plain:
    """A value whose JSON has the names of its fields. Their annotations say what is checked when it is read."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    @classmethod
    def from_json(cls: type[Self], data: object) -> Self:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        return convert(data, cls)


class PlainOfJob(Plain):
    """A plain value about the job that its field ``job`` names."""

    __slots__ = ()

    job: str

    @classmethod
    def from_json(cls: type[SelfOfJob], data: object) -> SelfOfJob:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        value = convert(data, cls)
        check_job_name(value.job)
        return value
