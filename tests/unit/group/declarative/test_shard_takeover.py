"""Whose sessions are shorter than a takeover lasts hears what to set."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.session_lengths import NOTICED, noticed_after_ms, warn_of_short_sessions
from airflow_provider.kafka.topics.administration import lasting_admin
from airflow_provider.kafka.topics.administration.lasting_admin import LastingAdmin
from airflow_provider.kafka.topics.outage import Outage


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def brokers(answer: Any) -> LastingAdmin:
    """Their answer to what they have set."""

    class Admin:
        def poll(self, _timeout: float) -> None: ...

        def describe_cluster(self, **_: Any) -> Future[Any]:
            return done(SimpleNamespace(nodes=[SimpleNamespace(id_string="1")]))

        def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
            assert [resource.name for resource in resources] == ["1"]
            return {resources[0]: done(answer)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lasting_admin, "AdminClient", lambda _: Admin())
        return LastingAdmin({}, Outage("broker:9092"))


def with_setting(ms: str) -> LastingAdmin:
    return brokers({NOTICED: SimpleNamespace(value=ms)})


REFUSED = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
SILENT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_what_brokers_have_set_counts_and_their_default_if_they_do_not_say() -> None:
    assert noticed_after_ms(with_setting("6000")) == 6_000
    silent: list[Any] = [REFUSED, {}, SILENT]
    assert [noticed_after_ms(brokers(answer)) for answer in silent] == [45_000] * 3


@pytest.mark.parametrize(
    ("admin", "session_ms", "warned"),
    [
        (brokers(REFUSED), 60_000, False),
        (brokers(REFUSED), 53_999, True),
        (with_setting("6000"), 15_000, False),
        (with_setting("6000"), 14_999, True),
    ],
)
def test_a_session_that_is_too_short(
    admin: LastingAdmin, session_ms: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_short_sessions(admin, CoordinatorSettings(session_timeout_ms=session_ms))
    assert bool(caplog.records) is warned
    if warned:
        assert "Grant at least" in caplog.text
        assert f"{NOTICED} of all brokers to at most {session_ms - 9_000}" in caplog.text
