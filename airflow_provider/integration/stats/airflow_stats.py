"""Sends metric values to Airflow's own stats: StatsD, Datadog, OpenTelemetry or none, as Airflow's config says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_provider.integration.airflow_api.airflow_names import conf
from airflow_provider.integration.lineage_events.outlet import ItemWords, Outlet
from airflow_provider.kafka.per_process import PerProcess
from airflow_provider.state.metrics.declared import Kind
from airflow_provider.state.metrics.sample import Sample

METRICS: Final = ItemWords(one="metric", many="metrics", section="metrics")
_DEFAULT_INTERVAL_S: Final = 10.0
_LEAST_INTERVAL_S: Final = 0.1


class Names(Enum):
    """The kinds of names under which a value is sent."""

    TAGGED = "tagged"
    """One name for all groups and jobs, with tags."""
    FLAT = "flat"
    """Group and job are in the name: plain StatsD drops tags, and the values of two groups would replace each other."""
    BOTH = "both"
    """What Airflow does unless ``legacy_names_on`` is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a process's metric values go.

    :param interval_s: the time between two samples of a group's gauges
    """

    outlet: Outlet[Sample]
    interval_s: float


class _OfProcess:
    """:ivar destination: as configured when it was first used; None: it was not used yet"""

    def __init__(self) -> None:
        self.destination: Destination | None = None


_OPEN: Final = PerProcess(_OfProcess)


def names_wanted() -> Names | None:
    """The names that Airflow's config asks for, checked in Airflow's order; None: no metrics."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        tagged = conf.getboolean("metrics", "statsd_datadog_metrics_tags", fallback=True)
    elif conf.getboolean("metrics", "statsd_on", fallback=False):
        tagged = conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False)
    elif conf.getboolean("metrics", "otel_on", fallback=False):
        tagged = True
    else:
        return None
    if not tagged:
        return Names.FLAT
    return Names.BOTH if conf.getboolean("metrics", "legacy_names_on", fallback=True) else Names.TAGGED


def of_task() -> Destination | None:
    """Where the values of a task's process go, whose stats Airflow has set up; None: nowhere."""
    return _destination(_stats)


def of_process() -> Destination | None:
    """Where the values of a process without an Airflow task go; None: nowhere.

    In a triggerer Airflow sets up other stats than those that a provider may use, and for a command line none.
    """
    return _destination(_stats_set_up)


def _destination(stats: Callable[[], Any]) -> Destination | None:
    names = names_wanted()
    if names is None:
        return None
    own = _OPEN.own
    if own.destination is None:
        own.destination = Destination(outlet=Outlet(Sender(stats, names), METRICS), interval_s=_interval_s())
    return own.destination


def _interval_s() -> float:
    said: float = conf.getfloat("cooperative_spark", "metrics_interval", fallback=_DEFAULT_INTERVAL_S)
    return max(_LEAST_INTERVAL_S, said)


def _stats() -> Any:
    try:
        from airflow.sdk.observability.stats import Stats
    except ImportError:  # before Airflow 3.2
        from airflow.stats import Stats

    return Stats


def _stats_set_up() -> Any:
    stats = _stats()
    try:
        from airflow.sdk.observability.metrics import stats_utils
    except ImportError:
        return stats  # an older Airflow's stats read the config themselves
    named: Callable[..., Any] = stats_utils.get_stats_factory
    asks = inspect.signature(named).parameters  # Airflow 3.2 passes the stats
    settings = {
        "factory": named(stats) if asks else named(),
        "export_legacy_names": conf.getboolean("metrics", "legacy_names_on", fallback=True),
    }
    known = inspect.signature(stats.initialize).parameters
    stats.initialize(**{name: setting for name, setting in settings.items() if name in known})
    return stats


class Sender:
    """Passes values to Airflow's stats, one after another. It runs in the outlet's thread, because importing a client
    and resolving its host take time.

    :param stats: returns Airflow's stats, called for the first value
    """

    def __init__(self, stats: Callable[[], Any], names: Names) -> None:
        self._set_up = stats
        self._names = names
        self._stats: Any = None

    def __call__(self, sample: Sample) -> None:
        if self._stats is None:
            self._stats = self._set_up()
        if self._names is not Names.FLAT:
            self._tell(sample.metric.kind, sample.metric.name, sample.value, tags=dict(sample.tagged))
        if self._names is not Names.TAGGED:
            self._tell(sample.metric.kind, sample.flat_name, sample.value)

    def _tell(self, kind: Kind, name: str, value: float, **tags: Any) -> None:
        match kind:
            case Kind.GAUGE:
                self._stats.gauge(name, value, **tags)
            case Kind.COUNTER:
                self._stats.incr(name, int(value), **tags)
            case Kind.TIMING:
                self._stats.timing(name, value, **tags)
