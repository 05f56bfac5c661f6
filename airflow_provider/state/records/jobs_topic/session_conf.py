"""Which of Spark's settings a job may have for its tasks. Settings that apply when Spark starts can't be set in a
session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from airflow_provider.state.records.envelope import check_plain
from airflow_provider.state.records.jobs_topic.checks import JobError

POOL: Final = "spark.scheduler.pool"
"""The pool of Spark's FAIR scheduler: it applies to what a session runs."""
_WHEN_SPARK_STARTS: Final = re.compile(
    r"spark\.(acls|admin|api|app|appStateStore|archives|authenticate|barrier|block|blockManager|broadcast|buffer|"
    r"checkpoint|cleaner|connect|cores|decommission|deploy|diskStore|driver|driverEnv|dynamicAllocation|eventLog|"
    r"excludeOnFailure|executor|executorEnv|extraListeners|file|files|history|io|jars|kerberos|kryo|kryoserializer|"
    r"kubernetes|local|locality|log|logConf|master|memory|metrics|modify|network|plugins|port|pyspark|python|r|rdd|"
    r"redaction|reducer|resources|rpc|scheduler|security|serializer|shuffle|shutdown|speculation|stage|standalone|storage|"
    r"submit|task|taskMetrics|ui|unsafe|user|worker|yarn)(\..*)?"
)
"""Spark 4.3 refuses most of these in a session, and ignores the others there."""
_STATIC: Final = re.compile(
    r"spark\.sql\.(broadcastExchange\.maxThreadThreshold|cache\.serializer|catalogImplementation|codegen\.cache\.maxEntries|"
    r"codegen\.comments|debug|defaultUrlStreamHandlerFactory\.enabled|event\.truncate\.length|extensions|"
    r"filesourceTableRelationCacheSize|globalTempDatabase|hive\.thriftServer\.singleSession|"
    r"legacy\.sessionInitWithConfigDefaults|metadataCacheTTLSeconds|queryExecutionListeners|"
    r"resultQueryStage\.maxThreadThreshold|shuffleExchange\.maxThreadThreshold|sources\.disabledJdbcConnProviderList|"
    r"sources\.schemaStringLengthThreshold|streaming\.streamingQueryListeners|streaming\.ui\..*|"
    r"subquery\.maxThreadThreshold|ui\.retainedExecutions|warehouse\.dir)"
)
"""Spark SQL's static settings."""


def check_session_conf(job: str, conf: object) -> None:
    """Refuse settings that Spark is known to refuse in a session. Others that a release refuses make the task fail.

    :raises JobError: naming the setting
    """
    if not isinstance(conf, Mapping):
        raise JobError(job, "session_conf", f"must be an object of names and values, not {type(conf).__name__}")
    for name, value in conf.items():
        if not isinstance(name, str) or not name or not isinstance(value, str):
            raise JobError(job, "session_conf", f"{name!r} must be the name of a setting, with a text as its value")
        for text in (name, value):
            try:
                check_plain(text)
            except ValueError as wrong:
                raise JobError(job, "session_conf", f"{name[:100]!r}: {wrong}") from None
        if _counts_when_spark_starts(name):
            raise JobError(
                job,
                "session_conf",
                f"{name!r} applies when Spark starts, to all tasks of a worker: give it to the workers, as their"
                " spark_conf, or to the Spark Connect server. A job may have what a session can set, such as"
                " 'spark.sql.shuffle.partitions'",
            )


def _counts_when_spark_starts(name: str) -> bool:
    return name != POOL and (_WHEN_SPARK_STARTS.fullmatch(name) or _STATIC.fullmatch(name)) is not None
