"""What a reader makes of a topic that went on, and was compacted, while it could not be read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from waiting import eventually

from airflow_provider.kafka.topics import reader as reader_module
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.reader import TopicReader
from airflow_provider.state.records import JobDefinition, encode, job_key


class Message:
    """A record, or the end of a topic."""

    def __init__(self, topic: str, offset: int, record: tuple[bytes, bytes | None] | None) -> None:
        self._topic, self._offset, self._record = topic, offset, record

    def topic(self) -> str:
        return self._topic

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._record[0] if self._record else None

    def value(self) -> bytes | None:
        return self._record[1] if self._record else None

    def error(self) -> KafkaError | None:
        return None if self._record else KafkaError(KafkaError._PARTITION_EOF)


class Topic:
    """A topic of one partition, and the consumer that reads it, one message at a time: as :class:`Consumer` would."""

    def __init__(self, name: str, before_each: Callable[[], None]) -> None:
        self.name = name
        self.cut_off = False
        self.begun = 0
        self._records: dict[int, tuple[bytes, bytes | None]] = {}
        self._end = 0
        self._position: int | None = None
        self._told_end: int | None = None
        self._before_each = before_each
        self._lock = threading.Lock()

    def write(self, job: str, *, removed: bool = False, max_tasks: int = 1) -> None:
        definition = JobDefinition(name=job, entry_point="m:f", max_tasks=max_tasks)
        with self._lock:
            self._records[self._end] = job_key(job).encode(), None if removed else encode(definition.to_json())
            self._end += 1

    def compact(self) -> None:
        """Keep the last record of each key, no tombstones, and the last record of all."""
        last = {key: offset for offset, (key, _) in self._records.items()}
        self._records = {
            offset: record
            for offset, record in self._records.items()
            if offset == self._end - 1 or (offset == last[record[0]] and record[1] is not None)
        }

    def renew(self) -> None:
        """It is deleted and made anew."""
        self._records, self._end = {}, 0

    # ---- a Consumer

    def poll(self, _timeout_s: float) -> Message | None:
        self._before_each()
        with self._lock:
            return self._next()

    def _next(self) -> Message | None:
        if self._position is None or self.cut_off:
            return None
        position = self._position
        offset = next((offset for offset in sorted(self._records) if offset >= position), None)
        if offset is not None:
            self._position = offset + 1
            return Message(self.name, offset, self._records[offset])
        if self._told_end == self._end:
            return None
        self._position = self._told_end = self._end
        return Message(self.name, self._end, None)

    def consume(self, _number: int, _timeout_s: float) -> list[Message]:
        return []

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            assert (partition.topic, partition.offset) == (self.name, 0)
            self._position, self._told_end = 0, None
            self.begun += 1

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        assert [partition.topic for partition in partitions] == [self.name]
        self._position = None

    def list_topics(self, _topic: str, *, timeout: float) -> Any:
        return SimpleNamespace(cluster_id="c", topics={})

    def close(self) -> None: ...


class Followed:
    """A topic that is followed, and all the sets of jobs that were ever seen in it, once it had been read."""

    def __init__(self) -> None:
        self.feed = GroupFeed("g")
        self.topic = Topic(self.feed.names.jobs, self._look)
        self.seen: list[frozenset[str]] = []

    @property
    def jobs(self) -> frozenset[str]:
        return frozenset(self.feed.jobs.snapshot().jobs)

    async def sees(self, *jobs: str) -> None:
        await eventually(lambda: self.jobs == set(jobs), lambda: f"{sorted(self.jobs)} in place of {jobs}")

    def _look(self) -> None:
        if not self.seen or self.seen[-1] != self.jobs:
            self.seen.append(self.jobs)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    made = Followed()
    monkeypatch.setattr(reader_module, "make_client", lambda _kind, _config: made.topic)
    monkeypatch.setattr(reader_module, "_POLL_S", 0.0)
    made.topic.write("kept")
    made.topic.write("removed")
    reader = TopicReader({}, Outage("nowhere:9"))
    reader.follow({made.topic.name: made.feed.jobs})
    yield made
    reader.close()


async def cut_off(followed: Followed) -> None:
    """From when all has been read."""
    await followed.sees("kept", "removed")
    await eventually(lambda: followed.topic._told_end is not None)
    followed.topic.cut_off = True
    followed.seen.clear()


async def test_a_removal_whose_tombstone_is_gone_is_noticed_and_nothing_else_is_missed_meanwhile(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await cut_off(followed)
    followed.topic.write("removed", removed=True)
    followed.topic.write("new")
    followed.topic.compact()
    followed.topic.cut_off = False
    await followed.sees("kept", "new")
    assert followed.seen == [{"kept", "removed"}, {"kept", "new"}], "as it was until as it is"
    assert (followed.feed.jobs.offset, followed.feed.jobs.renewals, followed.topic.begun) == (4, 0, 2)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "reading the topic 'g.jobs' again from its beginning: records from offset 2 on" in warning


async def test_also_if_nothing_comes_after_it(followed: Followed) -> None:
    await cut_off(followed)
    followed.topic.write("removed", removed=True)
    followed.topic._records.pop(2)
    followed.topic._records.pop(1)
    followed.topic.cut_off = False
    await followed.sees("kept")


async def test_who_has_missed_nothing_reads_on(followed: Followed) -> None:
    await cut_off(followed)
    followed.topic.write("removed", removed=True)
    followed.topic.write("new")
    followed.topic.cut_off = False
    await followed.sees("kept", "new")
    assert followed.topic.begun == 1


async def test_holes_in_what_is_read_for_the_first_time_are_of_no_concern(followed: Followed) -> None:
    await cut_off(followed)
    for number in range(5):
        followed.topic.write("removed", max_tasks=number + 1)
        followed.topic.write("new", max_tasks=number + 1)
    followed.topic.compact()
    followed.topic.cut_off = False
    await followed.sees("kept", "removed", "new")
    assert followed.topic.begun == 2, "the second time there are holes too"


async def test_a_topic_that_is_made_anew_while_it_is_read_again_counts_as_one(followed: Followed) -> None:
    await cut_off(followed)
    followed.topic.write("removed", removed=True)
    followed.topic.write("new")
    followed.topic.compact()

    def renew() -> None:
        if followed.topic.begun == 2:
            followed.topic._before_each = followed._look
            followed.topic.renew()
            followed.topic.write("other")

    followed.topic._before_each = renew
    followed.topic.cut_off = False
    await followed.sees("other")
    assert (followed.feed.jobs.offset, followed.feed.jobs.renewals) == (1, 1)
