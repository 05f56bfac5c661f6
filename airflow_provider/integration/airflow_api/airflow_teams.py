"""Airflow's teams (``[core] multi_team``). Whoever asks an auth manager must tell it the DAG's team."""

from __future__ import annotations

from collections.abc import Set


def all_teams() -> Set[str]:
    """The names of all teams; none where Airflow has no teams."""
    if not has_teams():
        return frozenset()
    from airflow.models.team import Team

    return Team.get_all_team_names()


def team_of(dag_id: str) -> str | None:
    """The team of a DAG; None for a DAG without one."""
    if not has_teams():
        return None
    from airflow.models.dag import DagModel

    return DagModel.get_team_name(dag_id)


def has_teams() -> bool:
    from airflow.configuration import conf

    return bool(conf.getboolean("core", "multi_team", fallback=False))
