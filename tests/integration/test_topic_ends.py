"""Where topics end, as a real broker says."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from waiting import DEADLINE_S, wait_until

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.partition_ends import LatestOffsets
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.kafka.topics.outage import Outage


@pytest.mark.usefixtures("nothing_left_open")
async def test_the_end_is_after_everything_that_was_written(settings: KafkaSettings, group_id: str) -> None:
    """Also after what compaction removes, and what is in a transaction that is still open."""
    config = {**settings.librdkafka(), **COMMON}
    empty, compacted, open_one, none = (f"{group_id}-{name}" for name in ("empty", "compacted", "open", "none"))
    new = [NewTopic(empty, 1, 1), NewTopic(open_one, 1, 1)]
    new.append(NewTopic(compacted, 1, 1, config={"cleanup.policy": "compact"}))
    client = AdminClient(config)
    for made in client.create_topics(new).values():
        made.result(DEADLINE_S)
    producer = Producer({**config, "transactional.id": group_id})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(compacted, b"value", key=b"key")
    producer.flush(DEADLINE_S)
    producer.commit_transaction(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(open_one, b"value")
    producer.flush(DEADLINE_S)
    with closing(TopicAdmin(config, Outage(settings.bootstrap_servers))) as admin:
        ends = await admin.end_offsets([empty, compacted, open_one], timeout_s=DEADLINE_S)
        assert ends == {empty: 0, compacted: 4, open_one: 1}
        with pytest.raises(NoTopicError, match=none):
            await admin.end_offsets([empty, none], timeout_s=DEADLINE_S)
    producer.abort_transaction(DEADLINE_S)


def test_a_topic_that_is_deleted_hides_no_other_end(settings: KafkaSettings, group_id: str) -> None:
    kept, deleted = (f"{group_id}-kept", 0), (f"{group_id}-deleted", 0)
    client = AdminClient({**settings.librdkafka(), **COMMON})
    for made in client.create_topics([NewTopic(topic, 1, 1) for topic, _ in (kept, deleted)]).values():
        made.result(DEADLINE_S)
    with closing(LatestOffsets(settings.librdkafka())) as latest:

        def ends() -> object:
            return latest.ask((kept, deleted), timeout_s=DEADLINE_S)

        wait_until(lambda: ends() == {kept: 0, deleted: 0}, ends)
        client.delete_topics([deleted[0]])[deleted[0]].result(DEADLINE_S)
        assert latest.ask((kept, deleted), timeout_s=DEADLINE_S)[kept] == 0
        wait_until(lambda: isinstance(latest.ask((deleted,), timeout_s=1)[deleted], KafkaError), "it is gone")
