"""Whether Airflow's config has metrics, for a worker without Airflow.

Importing Airflow takes seconds of processor time, and writes an ``airflow.cfg`` if there is none. So it is imported
only if metrics are configured.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow_provider.integration.stats.airflow_stats import Destination

_SECTION: Final = "metrics"
_BY_ENVIRONMENT: Final = "AIRFLOW__METRICS__"
_OFF: Final = ("false", "f", "0")


def destination() -> Destination | None:
    """Where this process's metric values go; None: nowhere."""
    if not may_be_on(os.environ):
        return None
    from airflow_provider.integration.stats.airflow_stats import of_process

    return of_process()


def may_be_on(environ: Mapping[str, str]) -> bool:
    """Whether metrics may be configured, so that Airflow has to be imported. By default they are off."""
    if any(name.startswith(_BY_ENVIRONMENT) for name in environ):
        return True
    home = Path(environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    file = Path(environ.get("AIRFLOW_CONFIG") or home / "airflow.cfg").expanduser()
    config = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        config.read(file, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return True  # Airflow reports what is wrong with it
    switches = config.items(_SECTION) if config.has_section(_SECTION) else ()
    return any(name.startswith(("statsd_", "otel_")) and _switched_on(name, said) for name, said in switches)


def _switched_on(name: str, said: str) -> bool:
    switch, _, _ = name.partition("_cmd")
    switch, _, _ = switch.partition("_secret")
    return switch in ("statsd_on", "otel_on", "statsd_datadog_enabled") and said.strip().lower() not in _OFF
