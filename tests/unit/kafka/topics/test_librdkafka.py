"""What librdkafka refuses for good, and what may be well in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from airflow_provider.kafka.topics.errors import LastingError, TopicError
from airflow_provider.kafka.topics.librdkafka import make_client


@pytest.mark.parametrize("wrong", [{"no.such.setting": "1"}, {"socket.timeout.ms": "soon"}, {"sasl.mechanisms": "X"}])
def test_settings_are_refused_for_good(wrong: dict[str, Any]) -> None:
    with pytest.raises(LastingError, match="librdkafka refuses the connection's settings"):
        make_client(AdminClient, {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", **wrong})


def test_a_certificate_that_is_away_may_be_there_again(tmp_path: Path) -> None:
    """As when it is replaced, or when too many files are open."""
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "gone.pem")}
    with pytest.raises(TopicError, match=r"can't make a client: .*ssl\.ca\.location failed") as failed:
        make_client(AdminClient, {"bootstrap.servers": "127.0.0.1:1", **tls})
    assert not isinstance(failed.value, LastingError)
