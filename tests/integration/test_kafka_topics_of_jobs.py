"""Which topics a pattern finds on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import wait_until

from airflow_provider.jobs.kafka_topics import ClusterError, topics_like
from airflow_provider.servers.local_broker import LocalBroker


def test_a_pattern_finds_whole_names_also_of_topics_that_come_later(broker: LocalBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def found() -> list[str]:
        return topics_like(r"pattern\.(shop|till)", broker.bootstrap_servers, {"client.id": "planner"})

    def make(*names: str) -> None:
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result()

    make("pattern.shop.old", "pattern-till", "__pattern.shop", "pattern.shop")
    wait_until(lambda: found() == ["pattern.shop"])
    make("pattern.till")
    wait_until(lambda: found() == ["pattern.shop", "pattern.till"])


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider.jobs.kafka_topics._ASK_S", 1.0)
    with pytest.raises(ClusterError, match=r"no broker of 127\.0\.0\.1:1 says"):
        topics_like(".*", "127.0.0.1:1", {})
