"""The three topics of declarative groups: what is made, what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC, Layout
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.kafka.topics.administration.topic_admin import FoundTopic
from airflow_provider.kafka.topics.errors import PartitionsError, PassingError, RightsError
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Operation, Right

ALL = frozenset(Operation)


class Topics(ShardTopics):
    """Of brokers that are this object."""

    def __init__(self, **found: FoundTopic) -> None:
        super().__init__({"bootstrap.servers": "broker:9092"}, Outage("broker:9092"))
        self.found = dict(found)
        self.made: dict[str, tuple[int, Mapping[str, str]]] = {}

    async def look_at(self, topic: str, *, timeout_s: float) -> FoundTopic | None:
        return self.found.get(topic)

    async def make(self, missing: Mapping[str, tuple[int, Mapping[str, str]]], *, timeout_s: float) -> None:
        self.made.update(missing)
        self.found.update({topic: FoundTopic(count, ALL) for topic, (count, _) in missing.items()})

    async def appear(self, made: Iterable[str], *, timeout_s: float) -> None: ...


async def test_all_are_made() -> None:
    topics = Topics()
    assert await topics.prepare_shards(timeout_s=1, make=Layout(shards=3, replies=6)) == Layout(shards=3, replies=6)
    policies = {topic: config["cleanup.policy"] for topic, (_, config) in topics.made.items()}
    assert policies == {REQUESTS_TOPIC: "delete", REPLIES_TOPIC: "delete", RECORDS_TOPIC: "compact"}


async def test_those_that_exist_stay_and_decide_how_many_there_are() -> None:
    topics = Topics(**{RECORDS_TOPIC: FoundTopic(50, ALL)})
    assert (await topics.prepare_shards(timeout_s=1, make=Layout(shards=3, replies=6))).shards == 50
    assert set(topics.made) == {REQUESTS_TOPIC, REPLIES_TOPIC}


async def test_topics_that_do_not_fit_together_are_refused() -> None:
    found = {REQUESTS_TOPIC: FoundTopic(2, ALL), RECORDS_TOPIC: FoundTopic(1, ALL), REPLIES_TOPIC: FoundTopic(1, ALL)}
    with pytest.raises(PartitionsError, match="both must have the same number"):
        await Topics(**found).prepare_shards(timeout_s=1)


async def test_topics_that_not_all_brokers_know_yet_are_asked_for_again() -> None:
    class Forgetful(Topics):
        async def make(self, missing: Mapping[str, tuple[int, Mapping[str, str]]], *, timeout_s: float) -> None: ...

    with pytest.raises(PassingError, match="do not all exist"):
        await Forgetful().prepare_shards(timeout_s=1)


async def test_all_rights_that_are_lacking_are_named() -> None:
    only_read = frozenset({Operation.READ, Operation.DESCRIBE})
    found = {
        REQUESTS_TOPIC: FoundTopic(0, frozenset()),
        RECORDS_TOPIC: FoundTopic(1, only_read),
        REPLIES_TOPIC: FoundTopic(1, only_read),
    }
    with pytest.raises(RightsError) as refused:
        await Topics(**found).prepare_shards(timeout_s=1)
    assert set(refused.value.lacking) == {
        Right(REQUESTS_TOPIC, Operation.READ),
        Right(REPLIES_TOPIC, Operation.WRITE),
        Right(RECORDS_TOPIC, Operation.WRITE),
    }
