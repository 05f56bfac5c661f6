"""Which coordinators drive bridges to classic groups."""

from __future__ import annotations

from airflow_provider.bridge.kafka_bridges import KafkaBridges
from airflow_provider.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.kafka.settings import KafkaSettings


def bridges_of(kafka: KafkaSettings, coordinator: CoordinatorSettings) -> KafkaBridges | None:
    """:returns: None where the migration policy has none"""
    if coordinator.migration is MigrationPolicy.DISABLED:
        return None
    return KafkaBridges(kafka, coordinator)
