"""Applies the settings that a job has for the sessions of its tasks, if a worker allows them.

A session works with the worker's secrets. Whoever submits a job must not choose where these are sent, nor what code is
loaded. So a worker allows what decides how a query runs, and whoever runs the worker can allow more. Nobody can allow
what names a file system, a catalog or a class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
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
_NAME: Final = re.compile(r"spark\.[\w.-]+")
"""All other names go to Hadoop as they are: ``fs.s3a.endpoint``, ``hive.metastore.uris``."""
_PATTERN: Final = re.compile(r"spark\.[\w-]+\.[\w.*-]+")
_NEVER: Final = re.compile(
    r"spark\.(hadoop|hive)\..*|.*(catalog|class|extensions|listeners|logstore|metastore).*|.*\.impl|"
    r"spark\.sql\.sources\.default|.*\.pyspark\.(driver\.)?python|.*checkpointLocation",
    re.IGNORECASE,
)
"""Hadoop's settings, catalogs, names of classes such as ``spark.sql.adaptive.customCostEvaluatorClass``, programs, and
where streams keep their state, also below an allowed name."""


class SessionConfError(Exception):
    """A worker or Spark refuses a setting: a fault of the job's definition, so another try does not help."""


@dataclass(frozen=True, slots=True)
class AllowedConf:
    """Which settings a worker lets jobs have.

    :param more: patterns of names that it allows besides the usual ones; ``*`` stands for any text
    :raises ValueError: naming a pattern that is none, or of settings that no worker allows
    """

    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in self.more:
            if not _PATTERN.fullmatch(pattern):
                raise ValueError(f"{pattern!r} must be names of Spark's settings, such as 'spark.sql.iceberg.*'")
            if _NEVER.fullmatch(pattern):
                raise ValueError(
                    f"{pattern!r}: no worker lets jobs set what may name a file system, a catalog or a class"
                )

    def check(self, conf: Mapping[str, str]) -> None:
        """:raises SessionConfError: naming the settings that are not allowed"""
        refused = self.refused(conf)
        if not refused:
            return
        possible = [name for name in refused if _may_be_allowed(name)]
        raise SessionConfError(
            f"the job's session_conf: a worker does not let a job set {_listed(refused)}, since it may decide what code"
            " runs or where data and secrets go: give it to the workers, as their spark_conf, or to the Spark Connect"
            " server" + (f"; or allow {_listed(possible)} by the workers' allowed_session_conf" if possible else "")
        )

    def refused(self, names: Iterable[str]) -> list[str]:
        """Those of the settings that are not allowed, in order."""
        return sorted(name for name in names if not self._allows(name))

    def _allows(self, name: str) -> bool:
        if not _may_be_allowed(name):
            return False
        return _ALLOWED.fullmatch(name) is not None or any(fnmatchcase(name, pattern) for pattern in self.more)


USUAL_CONF: Final = AllowedConf()


def set_conf(session: Any, conf: Mapping[str, str], allowed: AllowedConf) -> None:
    """:raises SessionConfError: naming the setting that is refused; if the worker does not allow it, none is set"""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    allowed.check(conf)
    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except (AnalysisException, IllegalArgumentException) as refused:
            why = str(refused).strip().partition("\n")[0]
            raise SessionConfError(f"the job's session_conf: Spark refuses {name!r} for a session: {why}") from None


def _may_be_allowed(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and not _NEVER.fullmatch(name)


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
