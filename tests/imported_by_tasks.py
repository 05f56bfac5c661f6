"""Imports what the tasks of an Airflow may import, so that forks of its scheduler need not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

import imported_by_workers as imported_by_workers

_ROOMS: Final = (
    "airflow_provider.integration",
    "airflow_provider.hooks",
    "airflow_provider.operators",
    "airflow_provider.sensors",
    "airflow_provider.triggers",
)
_AIRFLOW: Final = ("supervisor", "task_runner")

for _name in _AIRFLOW:
    importlib.import_module(f"airflow.sdk.execution_time.{_name}")
for _room in _ROOMS:
    for _found in pkgutil.walk_packages(importlib.import_module(_room).__path__, f"{_room}."):
        importlib.import_module(_found.name)
