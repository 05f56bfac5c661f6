"""What librdkafka says of its settings and connections, for those who have to know whether brokers can be reached.

It tries again by itself, whatever it is; but with credentials that were refused it tries in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaException

from airflow_provider.kafka.errors import CHECK_CERTIFICATE, CHECK_CREDENTIALS, CHECK_PROTOCOL
from airflow_provider.topics.errors import TopicError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from airflow_provider.topics.outage import Outage

C = TypeVar("C")

# How OpenSSL and librdkafka call what is wrong; a broker that goes down in the middle of a handshake is none of these.
_DISTRUST: Final = ("certificate", "unknown ca")
_NO_TLS: Final = ("wrong version number", "PLAINTEXT")


def make_client(kind: Callable[[dict[str, Any]], C], config: dict[str, Any]) -> C:
    """A client of librdkafka. Each kind refuses other settings of a connection, and some only beside our own.

    :raises TopicError: if it refuses these
    """
    try:
        return kind(config)
    except (KafkaException, TypeError, ValueError) as refused:
        why = refused.args[0].str() if isinstance(refused, KafkaException) else refused
        raise TopicError(f"librdkafka refuses the connection's settings: {why}") from refused


def tell(outage: Outage, error: KafkaError) -> None:
    """Tell of a connection that failed."""
    check = _what_to_check(error)
    if check is None:
        outage.trouble(error.str())
    else:
        outage.refused(error.str(), check)


def _what_to_check(error: KafkaError) -> str | None:
    """What people should look at; None if it may be over by itself."""
    text = error.str()
    if error.name() == "_AUTHENTICATION":
        return None if "Local:" in text else CHECK_CREDENTIALS  # its own error: the broker has said nothing
    if error.name() == "_SSL" and any(sign in text for sign in _NO_TLS):
        return CHECK_PROTOCOL
    return CHECK_CERTIFICATE if error.name() == "_SSL" and any(sign in text for sign in _DISTRUST) else None
