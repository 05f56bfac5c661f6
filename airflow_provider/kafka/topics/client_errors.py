"""Classifies the errors that librdkafka reports about its connections.

librdkafka always tries again by itself. That does not help if the credentials were refused, or a certificate is not
trusted: then people must act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from airflow_provider.kafka.errors import CHECK_CERTIFICATE, CHECK_CREDENTIALS, CHECK_PROTOCOL

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.outage import Outage

UNKNOWN_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)

# Words in OpenSSL's and librdkafka's messages. They do not occur if a broker goes down in the middle of a handshake.
_UNTRUSTED: Final = ("certificate", "unknown ca")
_NO_TLS: Final = ("wrong version number", "PLAINTEXT")


def tell(outage: Outage, error: KafkaError) -> None:
    """Tell the outage that a connection has failed."""
    check = _what_to_check(error)
    if check is None:
        outage.trouble(error.str())
    else:
        outage.refused(error.str(), check)


def _what_to_check(error: KafkaError) -> str | None:
    """What people should check, in words; None if another try may help."""
    text = error.str()
    if error.name() == "_AUTHENTICATION":
        return None if "Local:" in text else CHECK_CREDENTIALS  # "Local": librdkafka's own, not the broker's
    if error.name() == "_SSL" and any(sign in text for sign in _NO_TLS):
        return CHECK_PROTOCOL
    return CHECK_CERTIFICATE if error.name() == "_SSL" and any(sign in text for sign in _UNTRUSTED) else None
