"""The time zone of the sessions of a worker's tasks. It decides which date an instant has, so all workers of a group
should have the same. Spark's default is the zone of the machine that its JVM runs on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_provider.spark.local.application.spark_defaults import spark_defaults

TIME_ZONE: Final = "spark.sql.session.timeZone"
UTC: Final[Mapping[str, str]] = {TIME_ZONE: "UTC"}
"""Our default."""


def time_zone_here(conf: Mapping[str, str]) -> str:
    """The time zone of sessions of this process's own Spark.

    :param conf: the worker's settings
    """
    return {**UTC, **spark_defaults(), **conf}[TIME_ZONE]
