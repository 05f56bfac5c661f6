"""Imports what ``cospark worker`` and ``cospark coordinator`` may import, so that forks of this process need not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

import pytest as pytest  # a fork imports its parent's main module, which is pytest's

_WITHOUT_AIRFLOW: Final = (
    "airflow_provider.group.declarative.bridge",
    "airflow_provider.spark.local",
    "airflow_provider.group.live",
    "airflow_provider.worker.hands",
    "airflow_provider.kafka",
    "airflow_provider.group.declarative.requests",
    "airflow_provider.spark.runners",
    "airflow_provider.group.declarative.server",
    "airflow_provider.spark",
    "airflow_provider.spark.connect",
    "airflow_provider.kafka.topics",
    "airflow_provider.worker",
)
"""Rooms that never import it: the linter forbids it."""
_CLIENTS: Final = ("aiokafka.client", "confluent_kafka.admin", "pyspark.sql", "pyspark.sql.connect.session")

for _room in _WITHOUT_AIRFLOW:
    for _found in pkgutil.walk_packages(importlib.import_module(_room).__path__, f"{_room}."):
        importlib.import_module(_found.name)
for _name in (
    "airflow_provider.cli.worker_commands.worker",
    "airflow_provider.cli.worker_commands.coordinator",
    *_CLIENTS,
):
    importlib.import_module(_name)
