"""Whether the tasks of all workers of a group have the same time zones, in Spark and in Python. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_provider.state.records import WorkerStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.in_short import in_short


@dataclass(frozen=True, slots=True)
class TimeZones:
    """The time zones of the sessions of a group's tasks, if there are several.

    :param workers: the workers with each zone
    """

    workers: Mapping[str, tuple[str, ...]]

    def in_words(self) -> str:
        return (
            "the sessions of tasks have different time zones, so one instant may have two dates:"
            f" {_where(self.workers)}; give all workers the same spark.sql.session.timeZone"
        )


@dataclass(frozen=True, slots=True)
class PythonTimeZones:
    """The time zones of the processes that run a group's tasks, if there are several.

    :param workers: the workers with each zone
    """

    workers: Mapping[str, tuple[str, ...]]

    def in_words(self) -> str:
        return (
            "the processes of workers have different time zones, so one instant may have two dates in Python"
            f" (collect(), UDFs): {_where(self.workers)}; give all workers the same TZ"
        )


def _where(workers: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{zone} at {in_short(names)}" for zone, names in workers.items())


def different_time_zones(status: StatusSnapshot) -> TimeZones | None:
    """Those of the workers in the group that have said theirs; None: they have one."""
    found = _different(status, lambda worker: worker.time_zone)
    return TimeZones(found) if found else None


def different_python_time_zones(status: StatusSnapshot) -> PythonTimeZones | None:
    """The same for their processes."""
    found = _different(status, lambda worker: worker.python_time_zone)
    return PythonTimeZones(found) if found else None


def _different(status: StatusSnapshot, zone_of: Callable[[WorkerStatus], str]) -> dict[str, tuple[str, ...]]:
    """The workers with each zone; empty if there is only one."""
    found: dict[str, list[str]] = {}
    for name in sorted(status.group.members if status.group is not None else ()):
        said = status.workers.get(name)
        if said is not None and (zone := zone_of(said)):
            found.setdefault(zone, []).append(name)
    return {zone: tuple(workers) for zone, workers in sorted(found.items())} if len(found) > 1 else {}
