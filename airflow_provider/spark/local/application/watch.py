"""Checks the Spark that tasks run on: whether it is alive, and whether it has executors.

A task notices neither: it waits in a call that is never answered, or computes in Python and makes no call.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider.spark.local.application.cluster import is_local
from airflow_provider.spark.local.application.spark_application import RunningSpark
from airflow_provider.spark.local.application.standalone import MasterSays, ask_master
from airflow_provider.spark.local.spark_state import Sight

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)


def look_at(spark: RunningSpark) -> Sight:
    """Check it once. This asks the JVM, and blocks until it answers, or is ended because it does not.

    If the master has forgotten the application, stop it: it would wait for executors for ever.
    """
    from py4j.protocol import Py4JError

    try:
        return _look_at(spark)
    except (Py4JError, OSError):
        return Sight.FINE if spark.alive else Sight.ENDED


def _look_at(spark: RunningSpark) -> Sight:
    if not spark.alive:
        return Sight.ENDED
    context = spark.root.sparkContext
    if is_local(context.master or "local") or _executors(context):
        return Sight.FINE
    said = ask_master(context)
    if said is MasterSays.FORGOTTEN:
        log.warning("%s does not know this worker's Spark application any more; it is stopped", context.master)
        context._jsc.sc().stop()  # noqa: SLF001
        return Sight.ENDED
    if not context.statusTracker().getActiveJobsIds():
        return Sight.FINE
    return Sight.MASTERLESS if said is MasterSays.NOTHING else Sight.WAITING


def _executors(context: SparkContext) -> int:
    """The number of executors. Spark counts the driver as one, too."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # noqa: SLF001
