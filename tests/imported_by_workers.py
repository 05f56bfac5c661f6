"""Imports what ``cospark worker`` and ``cospark coordinator`` may import, so that forks of this process need not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

import pytest as pytest  # a fork imports its parent's main module, which is pytest's

_WITHOUT_AIRFLOW: Final = (
    "airflow_provider.bridge",
    "airflow_provider.driver",
    "airflow_provider.group",
    "airflow_provider.hands",
    "airflow_provider.kafka",
    "airflow_provider.requests",
    "airflow_provider.runners",
    "airflow_provider.shards",
    "airflow_provider.spark",
    "airflow_provider.spark_connect",
    "airflow_provider.topics",
    "airflow_provider.worker",
)
"""Rooms that never import it: the linter forbids it."""
_CLIENTS: Final = ("aiokafka.client", "confluent_kafka.admin", "pyspark.sql", "pyspark.sql.connect.session")

for _room in _WITHOUT_AIRFLOW:
    for _found in pkgutil.walk_packages(importlib.import_module(_room).__path__, f"{_room}."):
        importlib.import_module(_found.name)
for _name in ("airflow_provider.cli.worker", "airflow_provider.cli.coordinator", *_CLIENTS):
    importlib.import_module(_name)
