"""A task is told to stop while its Spark ends, as when both have lost their lease."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from airflow_provider.spark.local.application.spark_application import POOLS, LocalSparkSettings
from airflow_provider.spark.local.driver_jvm.jvm_lease import no_task_runs
from airflow_provider.spark.runners.local_task_session import LocalSession, Pools


class Spark:
    """It answers until somebody cancels something.

    :param ends: whether it ends then
    """

    jvm = None

    def __init__(self, *, ends: bool) -> None:
        self.alive = True
        self._ends = ends

    def cancelJobsWithTag(self, _tag: str) -> None:  # noqa: N802 - PySpark's
        self.alive = not self._ends
        raise Py4JNetworkError("Answer from Java side is empty")


def session_of(spark: Spark) -> LocalSession:
    session: Any = LocalSession(
        object(), LocalSparkSettings(), Pools(POOLS), tell_every_s=1.0, lease_left_s=no_task_runs
    )
    session.spark = spark
    session._session = SimpleNamespace(sparkContext=spark, streams=SimpleNamespace(active=[]))
    assert isinstance(session, LocalSession)
    return session


def test_nothing_is_left_to_cancel_in_a_spark_that_has_just_ended() -> None:
    session_of(Spark(ends=True)).cancel()


def test_what_a_running_spark_refuses_is_an_error() -> None:
    with pytest.raises(Py4JNetworkError):
        session_of(Spark(ends=False)).cancel()
