"""What the pages list is what the code has: parameters, XCom keys, files, commands."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from group_records import record_of

from airflow_provider.cli import main as cli
from airflow_provider.kafka.client_settings.tls import _SUPPORTED
from airflow_provider.operators.scale_spark_group import ScaleSparkGroupOperator
from airflow_provider.operators.spark_job import SparkJobOperator
from airflow_provider.operators.spark_worker import Deferred, Incremental, Learners, Membership, SparkWorkerOperator
from airflow_provider.sensors.assignment_epoch import AssignmentEpochSensor
from airflow_provider.sensors.job import JobSensor
from airflow_provider.spark.job import JobContext, TaskContext
from airflow_provider.state.reports.report import GroupReport, JobReport
from airflow_provider.state.views.task_progress.progress import JobProgress, JobState
from airflow_provider.task_groups.spark_job import SparkJobTaskGroup

ROOT = Path(__file__).parents[4]
COMMANDS, DAGS, JOBS, OPERATING, ARCHITECTURE = (
    (ROOT / "docs" / f"{page}.md").read_text()
    for page in ("command-line", "dags", "job-authors", "operating", "architecture")
)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("operator", [ScaleSparkGroupOperator, SparkJobOperator, SparkWorkerOperator])
def test_an_operators_table_has_its_parameters_and_what_is_templated(operator: type[BaseOperator]) -> None:
    section = _part(DAGS, rf"^## [\w ]+: {operator.__name__}\n", r"^##")
    cells = "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    assert _names(cells) == _parameters(operator) - {"kafka_conn_id"}
    assert _names(_part(section, r"^Templated: ", r"\.\n")) == set(operator.template_fields)


@pytest.mark.parametrize("value", [Deferred, Incremental, Learners, Membership])
def test_the_table_of_a_workers_values_has_their_settings(value: type) -> None:
    rows = re.findall(rf"^\| `{value.__name__}` \| (`.*?) \|", DAGS, re.MULTILINE)
    assert _names("".join(rows)) == _parameters(value)


def test_the_task_groups_table_has_its_parameters() -> None:
    section = _part(DAGS, r"^## [\w ]+: SparkJobTaskGroup\n", r"^## ")
    cells = "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE))
    assert _names(cells) == _parameters(SparkJobTaskGroup) - {"kafka_conn_id"}


@pytest.mark.parametrize("sensor", [JobSensor, AssignmentEpochSensor])
def test_a_sensors_paragraph_has_its_parameters(sensor: type) -> None:
    assert _parameters(sensor) <= _names(_part(DAGS, rf"^\*\*{sensor.__name__}\*\*: ", r"XCom"))


def test_the_page_has_each_key_that_is_passed_on() -> None:
    progress = JobProgress(
        job="j", run_key="r", state=JobState.RUNNING, complete=False, failed=False, planned=None, counts={}, errors={}
    )
    assert JobReport(progress=progress, results={}).to_json().keys() <= _names(
        _part(DAGS, r"^The operator's XCom:\n\n- `job`", r"\n\n", keep=True)
    )
    group = GroupReport(record=record_of(), workers=(), converged=True)
    assert group.to_json().keys() <= _names(_part(DAGS, r"XCom: `epoch`", r"\. Each of", keep=True))


@pytest.mark.parametrize("context", [JobContext, TaskContext])
def test_a_contexts_table_has_what_it_offers(context: type) -> None:
    table = _part(JOBS, rf"^\| of the `{context.__name__}` \| \|\n", r"\n\n")
    listed = _names("".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    own = {field.name for field in dataclasses.fields(context)} | {name for name in vars(context) if name[0] != "_"}
    assert listed == own - {"spark_provider", "guard", "share", "rehearsing", "applications", "writes"}


def test_the_settings_of_tls_are_those_that_are_honoured() -> None:
    row = _part(OPERATING, r"^\| `ssl\.\*`.*?\| ", r" \|")
    assert {f"ssl.{name}" for name in re.findall(r"`([\w.]+)`", row)} == _SUPPORTED


def test_the_commands_table_has_every_action() -> None:
    for name in cli.COMMANDS:
        (command,) = (action for action in cli._parser(name)._actions if action.dest == "command")
        nested = [action for action in _choices(command)[name]._actions if isinstance(action.choices, dict)]
        for action in (action for actions in nested for action in _choices(actions)):
            assert f"`cospark {name} {action} " in COMMANDS or f"`cospark {name} {action}`" in COMMANDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_to_be_made_can_be_made(page: Path) -> None:
    made = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert not [
        target for target in made if not re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    ]


def test_the_files_of_the_house_are_there() -> None:
    package = ROOT / "airflow_provider"
    named = re.findall(r"`(?:airflow_provider/)?(\w+/[\w/]+\.py)`", ARCHITECTURE)
    room = ""
    for line in _part(ARCHITECTURE, r"^### Rooms\n\n```text\n", r"^```").splitlines():
        room = line.split("/ ")[0].rstrip("/") if line[:1].strip() else room
        named += [f"{room}/{name}" for name in re.findall(r"\b\w+\.py\b", line)]
    assert len(named) > 30
    assert not [name for name in named if not (package / name).exists() and not (ROOT / name).exists()]


def _part(text: str, begin: str, end: str, *, keep: bool = False) -> str:
    """From the first match of ``begin``, with it or without, to the next of ``end``."""
    found = re.search(begin, text, re.MULTILINE)
    assert found, f"the page has no {begin!r}"
    rest = text[found.end() :]
    until = re.search(end, rest, re.MULTILINE)
    return (found[0] if keep else "") + (rest[: until.start()] if until else rest)


def _names(text: str) -> set[str]:
    """The names in backticks; of a method, without its parentheses."""
    return set(re.findall(r"`(\w+)(?:\(\w*\))?`", text))


def _parameters(operator: type) -> set[str]:
    return set(inspect.signature(operator).parameters) - {"kwargs"}


def _choices(action: argparse.Action) -> dict[str, Any]:
    assert isinstance(action.choices, dict)
    return action.choices
