"""What a worker runs its tasks with. Only values, so that DAG files can import it cheaply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider.spark.connect.server import NO_OTHERS, AllowedServers
from airflow_provider.spark.job.allowed_applications import NO_APPLICATIONS, AllowedApplications
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf

RUNNERS: Final = ("local", "noop")
NEVER_S: Final = 10.0**9
DEFAULT_MAX_SPARK_DEATHS: Final = 3
DEFAULT_SPARK_MASTER: Final = "local[2]"
DEFAULT_PROGRESS_S: Final = 30.0
"""Each report writes a record for each running task, so it should not come more often than somebody looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What a worker runs its tasks with.

    :param runner: ``local`` (threads of this process) or ``noop``
    :param allowed: import prefixes of entry points
    :param allowed_conf: which settings jobs may have for the sessions of their tasks
    :param applications: which ones tasks may submit to Spark
    :param checkpoint_root: folder or URI of all streaming checkpoints, or ``temporary``; None: it runs no stream
    :param spark_master: Spark's master URL, or that of a Spark Connect server
    :param spark_token: for a Spark Connect server; empty: none
    :param spark_conn_id: the Airflow connection by which others reach that server; empty: they need none
    :param allowed_servers: other servers on which the group's streams may have run
    :param detach: whether streams on a Spark Connect server are detached, and drivers on a cluster
    :param max_spark_deaths: a task may fail when Spark or its process has ended this often while it ran
    :param progress_s: the least time between two progress reports of a task, in seconds
    :param linger_s: hand the membership over when there was nothing to run for this long, in seconds
    """

    runner: str
    allowed: tuple[str, ...]
    checkpoint_root: str | None
    spark_master: str
    spark_token: str = field(default="", repr=False)
    spark_conn_id: str = ""
    allowed_servers: AllowedServers = NO_OTHERS
    detach: bool = True
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_spark_deaths: int = DEFAULT_MAX_SPARK_DEATHS
    allowed_conf: AllowedConf = USUAL_CONF
    applications: AllowedApplications = NO_APPLICATIONS
    progress_s: float = DEFAULT_PROGRESS_S
    linger_s: float = NEVER_S
