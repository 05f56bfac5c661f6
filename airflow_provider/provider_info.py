"""What Airflow learns about this package (entry point ``apache_airflow_provider``)."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Follows Airflow's schema ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-cooperative-spark",
        "name": "Cooperative Spark",
        "description": "Run Spark tasks spread over workers by Kafka's group protocol, as Kafka Connect does (KIP-415).",
        "versions": ["0.1.0"],
    }
