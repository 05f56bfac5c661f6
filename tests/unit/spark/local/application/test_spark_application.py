"""A Spark that does not start."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from airflow_provider.spark.attempts.failures import why_no_spark
from airflow_provider.spark.local.application import spark_application
from airflow_provider.spark.local.application.spark_application import (
    LocalSparkSettings,
    RunningSpark,
    SparkApplication,
)
from airflow_provider.spark.local.driver_jvm.jvm_lease import ENDED_BY_LEASE
from airflow_provider.spark.local.errors import SparkStartError


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that is no client of a Spark Connect server, and has a JVM."""
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark_application, "_require_java", lambda: None)
    monkeypatch.setattr(spark_application, "start_jvm", lambda conf, folder: None)


@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize(
    "refusal",
    [
        PySparkRuntimeError("the JVM has exited"),
        Py4JError("The value 'NOPE' in the config \"spark.scheduler.mode\" is invalid"),
    ],
    ids=["by PySpark", "by Spark"],
)
def test_its_settings_are_named_and_nothing_is_left_behind(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(_: Any) -> NoReturn:
        raise refusal

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SparkStartError, match=r"Spark did not start with master 'local\[1\]'"):
        SparkApplication().running_for("me", LocalSparkSettings(master="local[1]"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_java")
def test_a_worker_without_its_scratch_folder_is_to_blame_and_no_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "removed"))
    with pytest.raises(SparkStartError) as refused:
        SparkApplication().running_for("me", LocalSparkSettings(master="local[1]"))
    assert "caused by FileNotFoundError: [Errno 2] No such file or directory" in why_no_spark(refused.value)


@pytest.mark.usefixtures("without_java")
def test_a_worker_that_cannot_import_what_starts_spark_is_to_blame_and_no_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(spark_application, "_require_pyspark", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SparkStartError, match=r"Spark did not start with master 'local\[1\]'"):
        SparkApplication().running_for("me", LocalSparkSettings(master="local[1]"))


@pytest.mark.usefixtures("without_java")
def test_a_worker_whose_pyspark_has_no_spark_is_to_blame_and_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(os.path, "isfile", lambda _: False)
    with pytest.raises(SparkStartError, match="PySpark finds no Spark here: set SPARK_HOME"):
        SparkApplication().running_for("me", LocalSparkSettings(master="local[1]"))


@pytest.mark.usefixtures("without_java")
def test_a_refusal_by_java_is_reported_once_and_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
        ": org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY.SYSTEM_MEMORY] Insufficient driver"
        " memory: System memory 419430400 must be at least 471859200.\nPlease increase heap size. SQLSTATE: F0000\n"
        "\tat org.apache.spark.memory.UnifiedMemoryManager$.getMaxMemory(UnifiedMemoryManager.scala:215)\n"
    )

    def refuse(_: Any) -> NoReturn:
        raise Py4JError(said)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    with pytest.raises(SparkStartError) as refused:
        SparkApplication().running_for("me", LocalSparkSettings(master="local[1]"))
    assert why_no_spark(refused.value) == (
        "Spark did not start with master 'local[1]' (Java's output is in the worker's log); caused by"
        " SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY.SYSTEM_MEMORY] Insufficient driver memory: System"
        " memory 419430400 must be at least 471859200. Please increase heap size. SQLSTATE: F0000"
    )


def test_that_py4j_asks_a_jvm_that_has_gone_once_more_is_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    caplog.set_level(logging.DEBUG)
    for path in ("/lib/py4j/java_gateway.py", "/jobs/etl.py"):
        for level in (logging.INFO, logging.ERROR):
            root.handle(root.makeRecord("root", level, path, 1, path, (), None))
    assert [(record.pathname, record.levelname) for record in caplog.records] == [
        ("/lib/py4j/java_gateway.py", "ERROR"),
        ("/jobs/etl.py", "INFO"),
        ("/jobs/etl.py", "ERROR"),
    ]


@pytest.mark.parametrize(
    ("code", "said"), [(52, "52 (out of memory: raise spark.driver.memory)"), (-9, "-9 (killed: was"), (1, "1")]
)
def test_what_the_exit_code_of_its_jvm_means_is_said(code: int, said: str) -> None:
    ended: Any = SimpleNamespace(poll=lambda: code)
    nothing: Any = None
    spark = RunningSpark(number=1, root=nothing, jvm=ended, shipment=nothing)
    assert f"its JVM's exit code is {said}" in str(spark.gone())


def test_that_its_jvm_has_ended_itself_is_said_with_the_reason() -> None:
    ended: Any = SimpleNamespace(poll=lambda: ENDED_BY_LEASE)
    lease: Any = SimpleNamespace(why_over=lambda: "nobody renewed its lease for 9 s")
    nothing: Any = None
    spark = RunningSpark(number=1, root=nothing, jvm=ended, shipment=nothing, lease=lease)
    assert str(spark.gone()) == (
        "this worker's Spark has ended: its JVM has ended itself, because nobody renewed its lease for 9 s"
    )


def test_the_lease_of_tasks_is_kept_until_their_spark_has_stopped() -> None:
    """A task that has not ended when its worker does may still write until then."""
    kept: list[object] = []
    spark = SparkApplication()
    root: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)),
        ),
        stop=lambda: kept.append(spark._leases()),
    )
    lease: Any = SimpleNamespace(close=lambda: kept.append("closed"))
    nothing: Any = None
    spark._running = RunningSpark(number=1, root=root, jvm=None, shipment=nothing, lease=lease)
    assert spark.running_for("me", LocalSparkSettings(), lambda: 9.0) is spark._running
    assert spark.running_for("another", LocalSparkSettings()) is spark._running
    spark.release("another")
    assert kept == []
    spark.release("me")
    assert kept == [[9.0], "closed"]
    assert spark._leases() == []
