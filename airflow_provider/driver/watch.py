"""Looks at the Spark that tasks run on: whether it is still there, and whether it has anything to run them on.

A task hears of neither: it waits in a call for an answer that never comes, or computes in Python and asks nothing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider.driver.application import RunningSpark
from airflow_provider.driver.cluster import is_local
from airflow_provider.driver.pyspark_internals import ends_soon
from airflow_provider.driver.sight import Sight
from airflow_provider.driver.standalone import is_forgotten

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)


def look_at(spark: RunningSpark) -> Sight:
    """Look once. It asks the JVM, and takes as long as that does.

    An application that its master has forgotten is stopped: it would wait for executors for ever.
    """
    from py4j.protocol import Py4JError

    try:
        return _look_at(spark)
    except (Py4JError, OSError):
        return Sight.ENDED if spark.jvm is not None and ends_soon(spark.jvm) else Sight.FINE


def _look_at(spark: RunningSpark) -> Sight:
    if not spark.alive:
        return Sight.ENDED
    context = spark.root.sparkContext
    if is_local(context.master or "local") or _executors(context):
        return Sight.FINE
    if is_forgotten(context):
        log.warning("%s does not know this worker's Spark application any more; it is stopped", context.master)
        context._jsc.sc().stop()  # noqa: SLF001
        return Sight.ENDED
    return Sight.WAITING if context.statusTracker().getActiveJobsIds() else Sight.FINE


def _executors(context: SparkContext) -> int:
    """How many there are; Spark counts the driver as one."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001
