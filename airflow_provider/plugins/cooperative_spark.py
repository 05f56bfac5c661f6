"""The Airflow plugin."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from airflow_provider.common.links import SparkGroupLink


class CooperativeSparkPlugin(AirflowPlugin):
    """Adds the package's operator links."""

    name = "cooperative_spark"
    operator_extra_links = [SparkGroupLink()]  # noqa: RUF012  as Airflow declares it
