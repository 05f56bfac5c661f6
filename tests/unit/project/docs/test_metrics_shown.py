"""What the docs, the mapping, the dashboard and the rules for alerts name is what is declared."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider.state.metrics.declared import DECLARED, Kind, Metric
from airflow_provider.state.metrics.sample import Sample
from airflow_provider.state.records import TaskState

ROOT = Path(__file__).parents[4]
DASHBOARDS = ROOT / "dashboards"
MADE = runpy.run_path(str(ROOT / "docs" / "make_metrics.py"))
NAMES: dict[str, Metric] = {MADE["prometheus_name"](metric): metric for metric in DECLARED}
OURS = re.compile(r"\bairflow_cospark_\w+")
AGAIN = "run python docs/make_metrics.py and commit what it writes"


def mappings() -> list[dict[str, Any]]:
    read = yaml.safe_load((DASHBOARDS / "statsd-mapping.yml").read_text())
    return list(read["mappings"])


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DASHBOARDS / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def queries() -> Iterator[str]:
    """All that the dashboard and the rules ask Prometheus."""
    dashboard = json.loads((DASHBOARDS / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query")
    yield from (rule["expr"] for rule in alerts())


def declared_as(name: str) -> Metric:
    """The metric of a series: a histogram has three."""
    metric = NAMES.get(name)
    if metric is not None and metric.kind is not Kind.TIMING:
        return metric
    base, _, part = name.rpartition("_")
    assert part in ("bucket", "sum", "count"), f"{name} is declared nowhere"
    assert base in NAMES, f"{name} is declared nowhere"
    assert NAMES[base].kind is Kind.TIMING, f"{base} is no histogram"
    return NAMES[base]


def test_no_two_have_one_name() -> None:
    assert len(NAMES) == len({metric.name for metric in DECLARED}) == len(DECLARED)


def test_the_docs_have_the_table_that_is_declared() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert page == MADE["shown"](page), AGAIN
    assert all(f"| `{metric.name}` |" in page for metric in DECLARED)


def test_the_mapping_is_that_of_what_is_declared() -> None:
    assert (DASHBOARDS / "statsd-mapping.yml").read_text() == MADE["mapping"](), AGAIN


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: metric.name)
def test_each_name_that_is_sent_is_mapped_once_with_all_its_labels(metric: Metric) -> None:
    said = tuple(f"some.{tag.value}" for tag in metric.tags)
    sent = f"airflow.{Sample(metric=metric, value=1, tags=said).flat_name}"
    found = [
        (rule, parts)
        for rule in mappings()
        if (parts := re.fullmatch(rule["match"].replace(".", r"\.").replace("*", "([^.]*)"), sent))
    ]
    ((rule, parts),) = found
    labels = {label: parts[int(place.removeprefix("$"))] for label, place in rule.get("labels", {}).items()}
    assert labels == {tag.value: f"some__{tag.value}" for tag in metric.tags}
    assert NAMES[rule["name"]] is metric


def test_what_is_asked_for_is_declared() -> None:
    asked = list(queries())
    assert len(asked) > 30
    for query in asked:
        names = OURS.findall(query)
        assert names, f"{query} asks for nothing of ours"
        for name in names:
            declared_as(name)


def test_the_labels_that_are_asked_for_are_there() -> None:
    for query in queries():
        tags = {tag.value for name in OURS.findall(query) for tag in declared_as(name).tags}
        of = re.findall(r"\{([^{}]*)\}", query)
        by = re.findall(r"(?:by|on) \(([^()]*)\)", query)
        asked = {label for each in of for label in re.findall(r"(\w+)\s*=", each)}
        asked |= {label.strip() for each in by for label in each.split(",")}
        assert asked <= tags | {"le"}, f"{query} asks for labels that are not there"


def test_every_metric_is_on_the_dashboard_but_those_that_another_one_tells() -> None:
    shown = {declared_as(name) for query in queries() for name in OURS.findall(query)}
    assert {metric.name for metric in set(DECLARED) - shown} == {
        "cospark.group.jobs",
        "cospark.group.since_rebalance_seconds",
    }


def test_the_states_in_the_rules_are_states_of_tasks() -> None:
    for query in queries():
        for states in re.findall(r'state=~"([^"]*)"', query):
            assert set(states.split("|")) == {state.value for state in TaskState if not state.final}


def test_each_rule_says_what_it_means_and_what_to_do() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)
    for rule in alerts():
        assert rule["annotations"].keys() == {"summary", "description"}
        labels = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        kept = (re.findall(r"by \(([^()]*)\)", rule["expr"]) or [""])[0]
        assert labels <= {label.strip() for label in kept.split(",")}, rule["alert"]


def test_no_panel_lies_on_another() -> None:
    panels = json.loads((DASHBOARDS / "grafana.json").read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
