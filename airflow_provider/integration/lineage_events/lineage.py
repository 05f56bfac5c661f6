"""OpenLineage events of a worker's Spark tasks, if Airflow's provider for OpenLineage is installed and enabled.

Otherwise nothing of it is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

from airflow_provider.integration.airflow_api.airflow_names import conf
from airflow_provider.spark.lineage import NOTHING_NAMED, Lineage

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_provider.spark.runner import RunnerEvent

log = logging.getLogger(__name__)

_PROVIDER: Final = "airflow.providers.openlineage"
_LEAST: Final = "2.19.0"


class LineageTeller(Protocol):
    """Sends OpenLineage events of the Spark tasks that run in this process. Called on the event loop."""

    @property
    def named(self) -> Lineage:
        """The datasets that the finished tasks have read and written."""

    def hear(self, event: RunnerEvent) -> None:
        """Send the event, if any, that belongs to a runner's event. Does not block or raise."""

    async def close(self) -> None:
        """Return when all events are sent, or when that takes too long."""


class _Nobody:
    """Sends nothing."""

    named = NOTHING_NAMED

    def hear(self, event: RunnerEvent) -> None: ...

    async def close(self) -> None: ...


UNTOLD: Final[LineageTeller] = _Nobody()


def lineage_teller(context: Context, group: str) -> LineageTeller:
    """Make the teller for the worker of this Airflow task. Called in the task's main thread, where Airflow may be
    asked.

    Errors of OpenLineage are logged, and the worker runs without it.
    """
    if not _is_switched_on():
        return UNTOLD
    try:
        from airflow_provider.integration.lineage_events.openlineage_runs import OpenLineageRuns
    except ImportError as wrong:
        log.warning(
            "No OpenLineage events of Spark tasks: install apache-airflow-providers-openlineage %s or newer (%s)",
            _LEAST,
            wrong,
        )
        return UNTOLD
    try:
        return OpenLineageRuns.of(context, group) or UNTOLD
    except Exception as wrong:
        log.warning("No OpenLineage events of Spark tasks: %s: %s", type(wrong).__name__, wrong, exc_info=True)
        return UNTOLD


def with_lineage(spark_conf: Mapping[str, str], context: Context) -> Mapping[str, str]:
    """Add to Spark's settings what Airflow's config says to inject, as for Airflow's own Spark operators: the worker's
    run as the parent of its Spark application, and the transport.
    """
    parent, transport = (
        conf.getboolean("openlineage", f"spark_inject_{what}_info", fallback=False)
        for what in ("parent_job", "transport")
    )
    if not (parent or transport) or not _is_installed():
        return spark_conf
    from airflow.providers.openlineage.utils import spark

    given: dict[str, Any] = dict(spark_conf)
    if parent:
        given = spark.inject_parent_job_information_into_spark_properties(given, context)
    if transport:
        given = spark.inject_transport_information_into_spark_properties(given, context)
    return {name: str(value) for name, value in given.items()}


def facets_of(named: Lineage) -> OperatorLineage:
    """Inputs and outputs of the worker's own run, in the form of Airflow's provider."""
    from airflow_provider.integration.lineage_events.openlineage_runs import operator_lineage

    return operator_lineage(named)


def _is_installed() -> bool:
    return find_spec(_PROVIDER) is not None


def _is_switched_on() -> bool:
    """Whether OpenLineage is on. Importing the rest of the provider, which takes seconds, is only useful then."""
    if not _is_installed():
        return False
    from airflow.providers.openlineage.conf import is_disabled

    return not is_disabled()
