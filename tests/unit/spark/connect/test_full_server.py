"""Who is to blame if a Spark Connect server has no capacity left for a task."""

from __future__ import annotations

import grpc
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from sessions_on import session_on

from airflow_provider.spark.attempts.blame import NobodyToBlame, TaskToBlame, blame
from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.connect.connection import ConnectedServer
from airflow_provider.spark.connect.server import ConnectServer, ConnectSettings
from airflow_provider.spark.runners.connect_task_session import ConnectSession

SETTINGS = ConnectSettings(server=ConnectServer(host="spark"))


def exhausted(message: str) -> Exception:
    """As PySpark's client raises it."""
    return SparkConnectGrpcException(message, grpc_status_code=grpc.StatusCode.RESOURCE_EXHAUSTED)


def session() -> ConnectSession:
    return session_on(ConnectedServer(1, SETTINGS, None), SETTINGS)  # type: ignore[arg-type]  # it asks no session


def test_before_the_task_has_a_session_nobody_is_and_it_may_take_long() -> None:
    said = "the Spark Connect server sc://spark:15002 has no capacity left for this task: limit"
    verdict = blame(exhausted("limit"), session().explain, nothing_secret)
    assert verdict == NobodyToBlame(error=said, traceback="", lasts=True)


def test_when_its_code_was_called_its_own_work_may_be_what_is_too_much() -> None:
    opened = session()
    opened._has_opened = True
    verdict = blame(exhausted("limit"), opened.explain, nothing_secret)
    assert isinstance(verdict, NobodyToBlame)
    assert not verdict.lasts


def test_a_message_that_is_too_large_is_the_tasks() -> None:
    too_large = exhausted("Received message larger than max (9 vs. 8)")
    assert isinstance(blame(too_large, session().explain, nothing_secret), TaskToBlame)
