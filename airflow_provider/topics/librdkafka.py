"""How clients of librdkafka are made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from airflow_provider.topics.errors import TopicError

C = TypeVar("C")

# At its level 0 librdkafka still tells of fatal errors: who uses a client hears of them, with what to do.
_silence: Final = logging.getLogger(f"{__name__}.silence")
_silence.disabled = True

COMMON: Final[Mapping[str, Any]] = {
    # A topic made by the way would have the broker's default settings: it would not be compacted.
    "allow.auto.create.topics": False,
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 0,
    "logger": _silence,
}
"""What all clients are set to, whatever their connection says."""


def make_client(kind: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    """A client of librdkafka. Each kind refuses other settings of a connection, and some only beside our own.

    :raises TopicError: if it refuses these
    """
    try:
        return kind(config)
    except (KafkaException, TypeError, ValueError) as refused:
        why = refused.args[0].str() if isinstance(refused, KafkaException) else refused
        raise TopicError(f"librdkafka refuses the connection's settings: {why}") from refused
