"""Who may not do what, and whom a broker refuses: what is said of it, and to whom."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.client_errors import tell
from airflow_provider.kafka.topics.errors import LastingError, RefusedError, RightsError, TopicError, TopicRightsError
from airflow_provider.kafka.topics.librdkafka import make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.producer import TopicWriter
from airflow_provider.kafka.topics.reader import TopicReader
from airflow_provider.kafka.topics.rights import WATCHER, WORKER, Operation, Right
from airflow_provider.state.records import TopicNames

TOPICS = TopicNames.of("etl")
ALL = frozenset(Operation)


def test_what_is_lacking_is_told_by_topic_and_operation() -> None:
    allowed = {
        "etl.jobs": ALL - {Operation.WRITE},
        "etl.status": frozenset[Operation](),
        "etl.events": frozenset({Operation.DESCRIBE}),
    }
    assert list(map(str, WORKER.lacking(TOPICS, allowed))) == [
        "WRITE on the topic 'etl.jobs'",
        "READ on the topic 'etl.status'",
        "WRITE on the topic 'etl.status'",
        "WRITE on the topic 'etl.events'",
    ]
    assert list(map(str, WATCHER.lacking(TOPICS, allowed))) == ["READ on the topic 'etl.status'"]


def test_of_a_topic_that_is_not_there_nothing_is_lacking() -> None:
    assert not list(WORKER.lacking(TOPICS, {}))


def test_the_message_says_who_lacks_what_and_what_to_do() -> None:
    one, both = Right("etl.jobs", Operation.WRITE), Right("etl.status", Operation.READ)
    assert str(RightsError([one, both], "User:etl")) == (
        "User:etl has no right to WRITE on the topic 'etl.jobs', READ on the topic 'etl.status':"
        " grant these to User:etl, or use a connection whose user has them"
    )
    assert str(TopicRightsError("etl.jobs", "Write")) == (
        "the user of this connection has no right to WRITE on the topic 'etl.jobs':"
        " grant it to that user, or use a connection whose user has it"
    )


@pytest.mark.parametrize(
    "error",
    [
        RightsError([Right("etl.jobs", Operation.READ), Right("etl.jobs", Operation.WRITE)], "User:etl"),
        TopicRightsError("etl.jobs", "READ"),
        RefusedError("broker:9093", "no such user", "check sasl.username"),
    ],
)
def test_errors_survive_the_way_to_another_process(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), isinstance(again, RightsError)) == (str(error), isinstance(error, RightsError))


@pytest.mark.parametrize(
    ("config", "principal"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.username": "etl"}, "User:etl"),
        ({"security.protocol": "sasl_plaintext", "sasl.username": "etl"}, "User:etl"),
        ({"security.protocol": "SSL", "sasl.username": "unused"}, None),
        ({}, None),
    ],
)
def test_the_principal_is_what_acls_call_the_user(config: dict[str, str], principal: str | None) -> None:
    assert principal_of(config) == principal


REFUSALS = [
    (KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed", "sasl.password"),
    (KafkaError._SSL, "SSL handshake failed: certificate verify failed", "ssl.ca.location"),
    (KafkaError._SSL, "SSL handshake failed: wrong version number", "security.protocol"),
]
TROUBLES = [
    (KafkaError._TRANSPORT, "Connection refused"),
    (KafkaError._SSL, "SSL handshake failed: Disconnected"),
    (KafkaError._AUTHENTICATION, "SASL authentication error: SaslAuthenticateRequest failed: Local: Broker transport"),
]


@pytest.mark.parametrize(("code", "text", "check"), REFUSALS)
def test_whoever_waits_for_a_broker_hears_that_it_refuses(code: int, text: str, check: str) -> None:
    outage = Outage("broker:9093")
    with outage.watch() as refused:
        tell(outage, KafkaError(code, text))
        assert refused.done()
    told = str(outage.refusal)
    assert told.startswith(f"no connection to broker:9093: {text}; check ")
    assert check in told
    with outage.watch() as later:
        assert later.done()


@pytest.mark.parametrize(("code", "text"), TROUBLES)
def test_what_may_be_over_by_itself_is_waited_for(code: int, text: str) -> None:
    outage = Outage("broker:9093")
    with outage.watch() as refused:
        tell(outage, KafkaError(code, text))
        assert not refused.done()
    assert outage.refusal is None
    assert outage.reason == text


def test_an_answer_ends_a_refusal() -> None:
    outage = Outage("broker:9093")
    outage.refused("no such user", "check sasl.username")
    outage.is_back()
    assert outage.refusal is None
    with outage.watch() as refused:
        assert not refused.done()


@pytest.mark.parametrize(
    ("client", "extra", "why"),
    [
        (TopicAdmin, {"bootstrap.server": "a:1"}, "bootstrap.server"),
        (TopicReader, {"max.poll.interval.ms": 1_000}, "max.poll.interval.ms"),
        (TopicWriter, {"retries": 0}, "`retries` must be set >= 1 when `enable.idempotence` is true"),
        (TopicWriter, {"oauth_cb": "somebody.elses.function"}, "oauth_cb"),
    ],
)
def test_settings_that_librdkafka_refuses_are_named_whichever_client_it_is(
    client: type[TopicAdmin | TopicReader | TopicWriter], extra: dict[str, object], why: str
) -> None:
    """A connection may be shared with others, whose consumers and producers are not ours."""
    with pytest.raises(LastingError, match="refuses the connection's settings") as refused:
        client({"bootstrap.servers": "127.0.0.1:1", **extra}, Outage("127.0.0.1:1"))
    assert why in str(refused.value)


def test_what_a_machine_lacks_is_not_blamed_on_the_settings() -> None:
    """It may have it later, or another machine."""

    def make(_config: dict[str, Any]) -> None:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "Failed to create thread"))

    with pytest.raises(TopicError, match=r"^librdkafka can't make a client: Failed to create thread$") as failed:
        make_client(make, {})
    assert not isinstance(failed.value, LastingError)
