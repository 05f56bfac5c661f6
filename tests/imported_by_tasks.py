"""Imports what the tasks of an Airflow may import, so that forks of its scheduler need not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

import imported_by_workers as imported_by_workers

import airflow_provider

_ROOMS: Final = ("common", "hooks", "operators", "sensors", "triggers")
_AIRFLOW: Final = ("supervisor", "task_runner")

for _name in _AIRFLOW:
    importlib.import_module(f"airflow.sdk.execution_time.{_name}")
for _room in _ROOMS:
    _path = [f"{folder}/{_room}" for folder in airflow_provider.__path__]
    for _found in pkgutil.walk_packages(_path, f"airflow_provider.{_room}."):
        importlib.import_module(_found.name)
