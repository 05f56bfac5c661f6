"""The Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class CooperativeSparkPlugin(AirflowPlugin):
    """Adds the package's operator links."""

    name = "cooperative_spark"
