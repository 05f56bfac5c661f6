"""Whether the tasks of all workers of a group have the same time zone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.in_short import in_short


@dataclass(frozen=True, slots=True)
class TimeZones:
    """The time zones of a group whose workers have several.

    :param workers: the workers with each zone
    """

    workers: Mapping[str, tuple[str, ...]]

    def in_words(self) -> str:
        zones = "; ".join(f"{zone} at {in_short(workers)}" for zone, workers in self.workers.items())
        return (
            f"the sessions of tasks have different time zones, so one instant may have two dates: {zones}; give all"
            " workers the same spark.sql.session.timeZone"
        )


def different_time_zones(status: StatusSnapshot) -> TimeZones | None:
    """The time zones of the workers in the group that have said theirs; None: they have one."""
    found: dict[str, list[str]] = {}
    for name in sorted(status.group.members if status.group is not None else ()):
        said = status.workers.get(name)
        if said is not None and said.time_zone:
            found.setdefault(said.time_zone, []).append(name)
    return TimeZones({zone: tuple(workers) for zone, workers in sorted(found.items())}) if len(found) > 1 else None
