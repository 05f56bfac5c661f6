"""The example DAGs run unchanged without a setting of ours, which is in classic groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import test_example_dags as examples
from airflow_group import Group
from names import EXAMPLES

from airflow_provider.state.rounds.classic import ClassicRecord
from demo.airflow import LocalAirflow

pytestmark = pytest.mark.thorough

CHECKS: dict[str, Callable[[LocalAirflow, Path], None]] = {
    "batch": examples.check_batch,
    "task_group": examples.check_task_group,
    "task_cospark": lambda airflow, _folder: examples.check_task_cospark(airflow),
    "sql_files": lambda airflow, _folder: examples.check_sql_files(airflow),
    "spark_applications": lambda airflow, _folder: examples.check_spark_applications(airflow),
    "streaming": lambda airflow, _folder: examples.check_streaming(airflow),
    # Each stream moves when it is warm.
    "rebalance": lambda airflow, _folder: examples.check_rebalance(airflow, reason="learned", moves=(1, 2)),
}


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_runs_as_it_is(airflow: LocalAirflow, group: Group, example_folder: Path, name: str) -> None:
    CHECKS[name](airflow, example_folder)
    group.name = f"{EXAMPLES}.{name}"
    assert isinstance(group.record, ClassicRecord)
