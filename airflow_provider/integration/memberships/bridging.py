"""Which coordinators drive bridges to classic groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider.group.declarative.bridge.kafka_bridges import KafkaBridges
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.kafka.settings import KafkaSettings


@contextmanager
def bridges_of(kafka: KafkaSettings, coordinator: CoordinatorSettings) -> Iterator[KafkaBridges | None]:
    """The bridges, driven while the block runs; None if the migration policy has none."""
    if coordinator.migration is MigrationPolicy.DISABLED:
        yield None
        return
    bridges = KafkaBridges(kafka, coordinator)
    try:
        yield bridges
    finally:
        bridges.close_all()
