"""A real Airflow for the system tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from airflow_provider.cli.demo.airflow import LocalAirflow

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a system test and may take its time."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.timeout(300))


StartAirflow = Callable[..., LocalAirflow]


@pytest.fixture(scope="module")
def start_airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartAirflow]:
    """Starts an Airflow that lives until the module's tests are over: ``start_airflow([dags], connections=...)``."""
    started: list[LocalAirflow] = []

    def start(
        dag_folders: Sequence[Path],
        *,
        connections: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        triggerers: int = 1,
    ) -> LocalAirflow:
        airflow = LocalAirflow(
            tmp_path_factory.mktemp("airflow"),
            dag_folders=dag_folders,
            connections=connections,
            env=env,
            triggerers=triggerers,
        )
        started.append(airflow)
        airflow.start()
        return airflow

    yield start
    for airflow in started:
        airflow.stop()
