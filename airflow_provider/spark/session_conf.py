"""The settings that workers and jobs have for the sessions of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SettingRefusedError(Exception):
    """Spark refuses a setting of the worker's, which another worker need not have."""


class SessionConfError(SettingRefusedError):
    """Spark refuses a setting of the job's: a fault of its definition, which a second try does not repair."""


def set_worker_conf(session: Any, conf: Mapping[str, str]) -> None:
    """:raises SettingRefusedError: naming the setting that Spark refuses"""
    _set(session, conf, "the worker's spark_conf", SettingRefusedError)


def set_conf(session: Any, conf: Mapping[str, str]) -> None:
    """:raises SessionConfError: naming the setting that Spark refuses"""
    _set(session, conf, "the job's session_conf", SessionConfError)


def _set(session: Any, conf: Mapping[str, str], whose: str, refusal: type[SettingRefusedError]) -> None:
    from pyspark.errors import AnalysisException, IllegalArgumentException

    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except (AnalysisException, IllegalArgumentException) as refused:
            why = str(refused).strip().partition("\n")[0]
            raise refusal(f"{whose}: Spark refuses {name!r} for a session: {why}") from None
