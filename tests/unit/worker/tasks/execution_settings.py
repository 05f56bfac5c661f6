"""The settings of the machine that runs a worker's tasks, as tests have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.values.model import WorkerId
from airflow_provider.worker.process_identity import this_process
from airflow_provider.worker.tasks.state import ExecutionSettings


def execution_settings(**chosen: Any) -> ExecutionSettings:
    """Those of a worker in this process with two slots, but for what the caller has chosen."""
    usual = ExecutionSettings(
        worker=WorkerId("w1"),
        slots=2,
        process=this_process(),
        lease_ms=60_000,
        linger_ms=60_000,
        max_spark_deaths=3,
        mask=nothing_secret,
    )
    return replace(usual, **chosen)
