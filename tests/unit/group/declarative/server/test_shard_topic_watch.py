"""What who serves shards makes of the topics as the brokers know them."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.server import topic_watch
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.topic_watch import TopicWatch
from airflow_provider.kafka.topics.administration import lasting_admin
from airflow_provider.kafka.topics.administration.lasting_admin import LastingAdmin
from airflow_provider.kafka.topics.outage import Outage


class Brokers:
    """As an admin client asks them.

    :ivar ids: of the topics that there are
    :ivar partitions: how many each has
    :ivar away: whether nobody answers
    """

    def __init__(self) -> None:
        self.ids = {REQUESTS_TOPIC: 1, REPLIES_TOPIC: 2, RECORDS_TOPIC: 3}
        self.partitions = {REQUESTS_TOPIC: 4, REPLIES_TOPIC: 16, RECORDS_TOPIC: 4}
        self.away = False

    def poll(self, _timeout: float) -> None: ...

    def describe_topics(self, topics: TopicCollection, request_timeout: float) -> dict[str, Future[Any]]:
        return {topic: self._describe(topic) for topic in (REQUESTS_TOPIC, REPLIES_TOPIC, RECORDS_TOPIC)}

    def _describe(self, topic: str) -> Future[Any]:
        answer: Future[Any] = Future()
        if self.away:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        elif topic in self.ids:
            answer.set_result(SimpleNamespace(topic_id=self.ids[topic], partitions=[None] * self.partitions[topic]))
        else:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return answer


class Watching:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.brokers = Brokers()
        self.outage = Outage("broker:9092")
        self.watch = TopicWatch(self.outage)
        monkeypatch.setattr(lasting_admin, "AdminClient", lambda _: self.brokers)
        self._admin = LastingAdmin({}, self.outage)

    def begin(self) -> None:
        self.watch.begin(self._admin, Layout(shards=4, replies=16))

    def look(self) -> None:
        """Ask, and go by the answer."""
        for _ in range(2):
            self.watch.look(self._admin)


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Watching:
    monkeypatch.setattr(topic_watch, "_LOOK_S", 0.0)
    monkeypatch.setattr(topic_watch, "_AGAIN_S", 0.0)
    made = Watching(monkeypatch)
    made.begin()
    return made


def test_a_topic_that_stays_missing_is_gone(watching: Watching) -> None:
    del watching.brokers.ids[REPLIES_TOPIC]
    watching.look()
    with pytest.raises(ShardError, match=r"^the topic '__worker_replies' is gone: deleted, or lost by the brokers$"):
        watching.look()
    assert not watching.watch.was_renewed(RECORDS_TOPIC)


def test_a_topic_that_one_broker_did_not_know_is_not_gone(watching: Watching) -> None:
    gone = watching.brokers.ids.pop(RECORDS_TOPIC)
    watching.look()
    watching.brokers.ids[RECORDS_TOPIC] = gone
    watching.look()
    assert not watching.watch.was_renewed(RECORDS_TOPIC)


@pytest.mark.parametrize("seen", [True, False])
def test_a_topic_that_was_made_anew_is_another_one(watching: Watching, seen: bool) -> None:
    """Whether it was seen to be missing or not."""
    if seen:
        del watching.brokers.ids[RECORDS_TOPIC]
        watching.look()
        with pytest.raises(ShardError, match="is gone"):
            watching.look()
        watching.brokers.ids[RECORDS_TOPIC] = 4
        watching.begin()
    else:
        watching.brokers.ids[RECORDS_TOPIC] = 4
        with pytest.raises(ShardError, match="'__worker_offsets' was deleted and created again"):
            watching.look()
    watching.look()
    assert watching.watch.was_renewed(RECORDS_TOPIC)


@pytest.mark.parametrize("topic", [REQUESTS_TOPIC, REPLIES_TOPIC, RECORDS_TOPIC])
def test_more_partitions_are_noticed_while_they_are_served(watching: Watching, topic: str) -> None:
    """Groups and readers of replies have other partitions then."""
    watching.brokers.partitions[topic] *= 2
    with pytest.raises(ShardError, match=rf"^the topic '{topic}' had \d+ partitions, and has \d+ now$"):
        watching.look()


def test_what_was_made_anew_while_nobody_looked_is_known_before_it_is_loaded(watching: Watching) -> None:
    """The consumer may be the first to say that the topics are gone."""
    watching.brokers.ids = {REQUESTS_TOPIC: 4, REPLIES_TOPIC: 5, RECORDS_TOPIC: 6}
    watching.begin()
    assert watching.watch.was_renewed(RECORDS_TOPIC)
    watching.look()


def test_nothing_is_loaded_before_it_is_known_which_topics_there_are(watching: Watching) -> None:
    watching.brokers.away = True
    with pytest.raises(ShardError, match=r"^the topic '__worker_\w+' can't be described: "):
        watching.begin()


def test_what_was_granted_before_is_over_some_day(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    watching.brokers.ids[RECORDS_TOPIC] = 4
    with pytest.raises(ShardError):
        watching.look()
    monkeypatch.setattr(topic_watch, "_LATELY_S", 0.0)
    assert not watching.watch.was_renewed(RECORDS_TOPIC)


def test_brokers_that_do_not_answer_have_lost_nothing_and_are_said_to_be_back(
    watching: Watching, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watching.outage.went_away("all are down")
    watching.brokers.away = True
    for _ in range(3):
        watching.look()
    assert watching.outage.away
    watching.brokers.away = False
    for _ in range(3):
        watching.look()
    assert [record.message[:22] for record in caplog.records] == ["no broker of broker:90", "the broker of broker:9"]
