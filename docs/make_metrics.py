"""Write down the metrics as they are declared: ``python docs/make_metrics.py`` writes their table into
``docs/metrics.md``, and the mapping of Prometheus' StatsD exporter into ``dashboards/statsd-mapping.yml``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airflow_provider.state.metrics.declared import DECLARED, Kind, Metric, Speaker

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "metrics.md"
MAPPING: Final = ROOT / "dashboards" / "statsd-mapping.yml"
PREFIX: Final = "airflow"
"""Airflow's own default (``statsd_prefix``)."""

_PLACE: Final = re.compile(r"(<!-- made by docs/make_metrics.py -->\n).*?(<!-- end -->\n)", re.DOTALL)
_ENDS: Final = {Kind.GAUGE: "", Kind.COUNTER: "_total", Kind.TIMING: "_seconds"}
_TYPES: Final = {Kind.GAUGE: "gauge", Kind.COUNTER: "counter", Kind.TIMING: "observer"}
_BUCKETS_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_WHO: Final = {
    Speaker.SPOKESMAN: "spokesman",
    Speaker.LEADER: "leader of the round",
    Speaker.OWNER: "worker",
    Speaker.COORDINATOR: "coordinator",
}


def prometheus_name(metric: Metric) -> str:
    """What the mapping calls it. The exporter makes seconds of a timing's milliseconds."""
    return f"{PREFIX}.{metric.name}".replace(".", "_") + _ENDS[metric.kind]


def shown(page: str) -> str:
    """``page`` with the table as it has to be."""
    return _PLACE.sub(lambda place: f"{place[1]}{table()}{place[2]}", page)


def table() -> str:
    """Each metric beside what Kafka Connect has."""
    rows = ["| metric | kind | tags | sent by | what it is | in Connect |", "|---|---|---|---|---|---|"]
    for metric in DECLARED:
        tags = ", ".join(tag.value for tag in metric.tags)
        connect = "" if metric.connect is None else f"`{metric.connect[0]}`: `{metric.connect[1]}`"
        name, kind, who = f"`{metric.name}`", metric.kind.value, _WHO[metric.speaker]
        rows.append(f"| {name} | {kind} | {tags} | {who} | {metric.meaning} | {connect} |")
    return "\n".join(rows) + "\n"


def mapping() -> str:
    """From names with group and job in them to names with labels."""
    return "\n".join(_mapping()) + "\n"


def _mapping() -> Iterator[str]:
    yield "# Made by docs/make_metrics.py, for Prometheus' statsd_exporter (--statsd.mapping-config)."
    yield "mappings:"
    for metric in DECLARED:
        yield f"  - match: {PREFIX}.{metric.name}{'.*' * len(metric.tags)}"
        yield f"    match_metric_type: {_TYPES[metric.kind]}"
        yield f"    name: {prometheus_name(metric)}"
        if metric.tags:
            yield "    labels:"
        yield from (f"      {tag.value}: ${number}" for number, tag in enumerate(metric.tags, 1))
        if metric.kind is Kind.GAUGE:
            yield "    ttl: 5m"
        if metric.kind is Kind.TIMING:
            yield "    observer_type: histogram"
            yield "    histogram_options:"
            yield f"      buckets: [{', '.join(map(str, _BUCKETS_S))}]"


if __name__ == "__main__":
    PAGE.write_text(shown(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    MAPPING.write_text(mapping(), encoding="utf-8")
