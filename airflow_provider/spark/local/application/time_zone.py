"""The time zones of a worker. They decide which date an instant has, so all workers of a group should have the same.

That of the sessions of its tasks counts in Spark; Spark's default is the zone of the machine that its JVM runs on. That
of its process counts where Python gets a timestamp from Spark, in ``collect()`` and in UDFs.
"""

from __future__ import annotations

import time
from calendar import timegm
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


def time_zone_of_python() -> str:
    """The time zone of this process: that of the variable ``TZ``, or of the machine. Zones have several names, so it is
    told by its offsets.
    """
    year = time.gmtime().tm_year
    january, july = (_offset(timegm((year, month, 1, 0, 0, 0))) for month in (1, 7))
    return january if january == july else f"{january} (in July {july})"


def _offset(at_s: int) -> str:
    minutes = time.localtime(at_s).tm_gmtoff // 60
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}" if minutes else "UTC"
