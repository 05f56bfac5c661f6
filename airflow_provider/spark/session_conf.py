"""Applies the settings that a job has for the sessions of its tasks, if a worker allows them.

A session works with the worker's secrets. Whoever submits a job must not choose where these are sent, nor what code is
loaded. So a worker allows what decides how a query runs, and nothing that names a file system, a catalog or a class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_ALLOWED: Final = re.compile(
    r"spark\.scheduler\.pool|"
    r"spark\.sql\.(shuffle|adaptive|ansi)\.[\w.]+|"
    r"spark\.sql\.(autoBroadcastJoinThreshold|broadcastTimeout|caseSensitive|session\.timeZone|storeAssignmentPolicy|"
    r"files\.(ignoreCorruptFiles|ignoreMissingFiles|maxPartitionBytes|maxPartitionNum|maxRecordsPerFile|"
    r"minPartitionNum|openCostInBytes)|"
    r"sources\.partitionOverwriteMode|"
    r"(orc|parquet)\.(compression\.codec|filterPushdown|mergeSchema)|"
    r"streaming\.(minBatchesToRetain|noDataMicroBatches\.enabled|verifyCheckpointDirectoryEmptyOnStart|"
    r"stateStore\.(minDeltasForSnapshot|rocksdb\.[\w.]+)))|"
    r"spark\.databricks\.delta\.(retryWriteConflict\.\w+|optimizeWrite\.\w+|autoCompact\.\w+|schema\.autoMerge\.enabled)"
)
_CLASS: Final = re.compile(r".*class(es|name)?", re.IGNORECASE)
"""Such as ``spark.sql.adaptive.customCostEvaluatorClass``: a name that Spark adds below an allowed one."""


class SessionConfError(Exception):
    """A worker or Spark refuses a setting: a fault of the job's definition, so another try does not help."""


def set_conf(session: Any, conf: Mapping[str, str]) -> None:
    """:raises SessionConfError: naming the setting that is refused; if the worker does not allow it, none is set"""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    check_allowed(conf)
    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except (AnalysisException, IllegalArgumentException) as refused:
            why = str(refused).strip().partition("\n")[0]
            raise SessionConfError(f"the job's session_conf: Spark refuses {name!r} for a session: {why}") from None


def check_allowed(conf: Mapping[str, str]) -> None:
    """:raises SessionConfError: naming the settings that no job may have"""
    refused = sorted(name for name in conf if not _ALLOWED.fullmatch(name) or _CLASS.fullmatch(name))
    if refused:
        raise SessionConfError(
            f"the job's session_conf: a worker does not let a job set {', '.join(map(repr, refused))}, since it may"
            " decide what code runs or where data and secrets go: give it to the workers, as their spark_conf, or to"
            " the Spark Connect server"
        )
