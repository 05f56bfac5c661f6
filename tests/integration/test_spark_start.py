"""A Spark that starts, and a worker that can't use it nevertheless."""

from __future__ import annotations

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
