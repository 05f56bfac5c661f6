"""Warns of topics from which brokers delete old records, as they do in topics that were created without settings."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.administration.lasting_admin import LastingAdmin

log: Final = logging.getLogger(__name__)


async def warn_of_deletion(admin: LastingAdmin, topics: Iterable[str], *, timeout_s: float) -> None:
    """Warn of those of these topics that are not only compacted. Workers that start later would not know the jobs that
    older ones run.
    """
    from confluent_kafka import KafkaException  # not above: it takes long to load
    from confluent_kafka.admin import ConfigResource, ResourceType

    from airflow_provider.kafka.topics.errors import BrokerAwayError

    asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = admin.ask(
        "asking for the settings of topics",
        lambda client, most_s: client.describe_configs(asked, request_timeout=most_s),
        timeout_s=timeout_s,
    )
    for resource, answer in answers.items():
        try:
            policy = (await admin.answer(answer)).get("cleanup.policy")
        except (KafkaException, BrokerAwayError):  # most users have no right to know it
            continue
        # Not every service that speaks Kafka's protocol has it.
        if policy is not None and policy.value != "compact":
            log.warning(
                "the topic %r has cleanup.policy=%s: brokers delete its old records, and with them jobs, or where"
                " streams run; set cleanup.policy=compact",
                resource.name,
                policy.value,
            )
