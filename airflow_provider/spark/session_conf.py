"""Applies the settings that a job has for the sessions of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SessionConfError(Exception):
    """Spark refuses a setting: a fault of the job's definition, so another try does not help."""


def set_conf(session: Any, conf: Mapping[str, str]) -> None:
    """:raises SessionConfError: naming the setting that Spark refuses"""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except (AnalysisException, IllegalArgumentException) as refused:
            why = str(refused).strip().partition("\n")[0]
            raise SessionConfError(f"the job's session_conf: Spark refuses {name!r} for a session: {why}") from None
