"""A Spark that starts, and a worker that can't use it nevertheless."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark import SparkContext
from runner_bench import SETTINGS

from airflow_provider.spark.local.application import spark_application
from airflow_provider.spark.local.application.spark_application import SparkApplication
from airflow_provider.spark.local.errors import SparkStartError


def test_what_a_failed_start_leaves_is_not_taken_for_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> NoReturn:
        raise OSError("no space left on device")

    spark = SparkApplication()
    with monkeypatch.context() as broken:
        broken.setattr(spark_application, "warn_of_unlimited_cores", fails)
        with pytest.raises(SparkStartError, match="Spark did not start"):
            spark.running_for("me", SETTINGS)
    assert SparkContext._active_spark_context is None
    running = spark.running_for("me", SETTINGS)
    assert running.alive
    spark.release("me")
    assert not running.alive, "it was started here, so it is stopped here"


def test_a_worker_whose_working_folder_was_removed_is_to_blame_and_no_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As by a deployment that replaces the folder from which it was started."""
    folder = tmp_path / "release-7"
    folder.mkdir()
    spark = SparkApplication()
    with monkeypatch.context() as moved:
        moved.chdir(folder)
        folder.rmdir()
        with pytest.raises(SparkStartError, match=r"Spark did not start with master 'local\[2\]'"):
            spark.running_for("me", SETTINGS)
    assert SparkContext._active_spark_context is None
    assert spark.running_for("me", SETTINGS).alive, "it starts where there is a folder"
    spark.release("me")
