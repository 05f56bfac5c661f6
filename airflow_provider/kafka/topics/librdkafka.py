"""Makes clients of librdkafka."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from airflow_provider.kafka.topics.errors import LastingError, TopicError

C = TypeVar("C")

# At log level 0, librdkafka still logs fatal errors. They are silenced, because the code that uses a client reports
# them, together with what to do. The logger is not disabled, because a worker enables loggers that a task has disabled.
_silence: Final = logging.getLogger(f"{__name__}.silence")
_silence.addFilter(lambda _record: False)

_NOT_LOADED: Final = re.compile(r"ssl\.[a-z.]+ failed")
"""A file of TLS that can't be opened: it may be there again in a moment, or there are too many open ones."""

COMMON: Final[Mapping[str, Any]] = {
    # A topic that is created automatically has the broker's default settings: it would not be compacted.
    "allow.auto.create.topics": False,
    "reconnect.backoff.max.ms": 1_000,
    "log_level": 0,
    "logger": _silence,
}
"""Settings of all clients. They override those of the connection."""


def make_client(kind: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    """Make a client of librdkafka.

    :param kind: the client's class. Each class refuses other settings, some only in combination
    :raises LastingError: if it refuses these settings
    :raises TopicError: if there are not enough threads, files or memory for it
    """
    try:
        return kind(config)
    except (KafkaException, TypeError, ValueError) as refused:
        error = refused.args[0] if isinstance(refused, KafkaException) else None
        if error is not None and not _is_lasting(error):
            raise TopicError(f"librdkafka can't make a client: {error.str()}") from refused
        why = refused if error is None else error.str()
        raise LastingError(f"librdkafka refuses the connection's settings: {why}") from refused


def _is_lasting(error: KafkaError) -> bool:
    return error.code() == KafkaError._INVALID_ARG and not _NOT_LOADED.search(error.str())  # noqa: SLF001
