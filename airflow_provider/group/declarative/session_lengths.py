"""Checks whether members' sessions are longer than the time that brokers need to notice a coordinator's death."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.kafka.topics.administration.lasting_admin import LastingAdmin
from airflow_provider.kafka.topics.errors import TopicError

log: Final = logging.getLogger(__name__)

NOTICED: Final = "group.consumer.session.timeout.ms"
LEAST: Final = "group.consumer.min.session.timeout.ms"
_DEFAULT_MS: Final = 45_000
"""Kafka's default of both settings."""
_HEARTBEATS: Final = 3
"""By how many heartbeat intervals a session must be longer. Two, because a heartbeat is answered up to two intervals
after its sending, from which the session counts; the third is for loading.
"""
_ANSWER_S: Final = 5.0


def warn_of_short_sessions(admin: LastingAdmin, settings: CoordinatorSettings) -> None:
    """Log a warning with what to set, if members would stop their tasks before another coordinator has taken over."""
    noticed_ms = noticed_after_ms(admin)
    least_ms = noticed_ms + _HEARTBEATS * settings.heartbeat_interval_ms
    if settings.session_timeout_ms < least_ms:
        most_ms = settings.session_timeout_ms - _HEARTBEATS * settings.heartbeat_interval_ms
        log.warning(
            "members get sessions of %d ms, but brokers notice only after %d ms that a coordinator has died: by then,"
            " members would have stopped their tasks. Grant at least %d ms%s",
            settings.session_timeout_ms,
            noticed_ms,
            least_ms,
            f", or set {LEAST} and {NOTICED} of all brokers to at most {most_ms}" if most_ms > 0 else "",
        )


def noticed_after_ms(admin: LastingAdmin) -> int:
    """The brokers' setting, in milliseconds; Kafka's default if the user may not know it or no broker answers."""
    try:
        clusters = admin.ask(
            "asking who the brokers are",
            lambda client, most_s: {"": client.describe_cluster(request_timeout=most_s)},
            timeout_s=_ANSWER_S,
        )
        resource = ConfigResource(ResourceType.BROKER, clusters[""].result().nodes[0].id_string)
        settings = admin.ask(
            "asking for the settings of a broker",
            lambda client, most_s: client.describe_configs([resource], request_timeout=most_s),
            timeout_s=_ANSWER_S,
        )
        return int(settings[resource].result()[NOTICED].value)
    except (KafkaException, TopicError, LookupError, ValueError, TypeError):
        return _DEFAULT_MS
