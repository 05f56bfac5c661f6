"""Imports what ``cospark worker`` and ``cospark coordinator`` may import, so that forks of this process need not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

import pytest as pytest  # a fork imports its parent's main module, which is pytest's

import airflow_provider

_WITHOUT_AIRFLOW: Final = (
    *("bridge", "driver", "group", "hands", "kafka", "requests", "runners", "shards", "spark", "spark_connect"),
    *("topics", "worker"),
)
"""Rooms that never import it: the linter forbids it."""
_CLIENTS: Final = ("aiokafka.client", "confluent_kafka.admin", "pyspark.sql", "pyspark.sql.connect.session")

for _room in _WITHOUT_AIRFLOW:
    _path = [f"{folder}/{_room}" for folder in airflow_provider.__path__]
    for _found in pkgutil.walk_packages(_path, f"airflow_provider.{_room}."):
        importlib.import_module(_found.name)
for _name in ("airflow_provider.cli.worker", "airflow_provider.cli.coordinator", *_CLIENTS):
    importlib.import_module(_name)
