"""What librdkafka says of its connections, for those who have to know whether brokers can be reached.

It tries again by itself, whatever it is; but with credentials that were refused it tries in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from airflow_provider.kafka.errors import CHECK_CERTIFICATE, CHECK_CREDENTIALS, CHECK_PROTOCOL

if TYPE_CHECKING:
    from airflow_provider.topics.outage import Outage

UNKNOWN_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)

# How OpenSSL and librdkafka call what is wrong; a broker that goes down in the middle of a handshake is none of these.
_DISTRUST: Final = ("certificate", "unknown ca")
_NO_TLS: Final = ("wrong version number", "PLAINTEXT")


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
