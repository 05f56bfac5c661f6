"""When a member takes its group's topics for gone, and when it waits."""

from __future__ import annotations

import time

import pytest
from stand_ins import MemoryTopics

from airflow_provider.group.live.topics_watch import TopicsWatch
from airflow_provider.kafka.topics.errors import NoTopicError
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import JobDefinition, encode

MISSING = "g.jobs"
JOB = Record(b"job:a", encode(JobDefinition(name="a", entry_point="m:f").to_json()), 0)


class Watched:
    """A watch over topics in memory, under a clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.topics = MemoryTopics()
        self.feed = self.topics._followed()
        self.gone: list[str] = []
        self.watch = TopicsWatch(self.topics, patience_s=6, gone=self.gone.append)
        self.watch.begin()

    def look(self, *, later_s: float = 0) -> None:
        self.now += later_s
        self.watch.look()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_a_topic_that_is_missing_for_a_session_is_gone_and_that_is_told_once(watched: Watched) -> None:
    watched.feed.jobs.fail(NoTopicError(MISSING))
    watched.look()
    watched.look(later_s=5.9)
    assert watched.gone == []
    watched.look(later_s=0.1)
    watched.look(later_s=60)
    assert watched.gone == ["g.jobs"]


def test_a_topic_that_is_there_again_was_not_gone(watched: Watched) -> None:
    """A broker that has just started may not know its topics yet."""
    watched.feed.status.fail(NoTopicError("g.status"))
    watched.look()
    watched.feed.status.reached(0)
    watched.look(later_s=5)
    watched.feed.status.fail(NoTopicError("g.status"))
    watched.look(later_s=5)
    assert watched.gone == []


def test_what_a_leader_misses_counts_though_nobody_else_has_noticed(watched: Watched) -> None:
    watched.watch.missed(MISSING)
    watched.now += 6
    watched.watch.missed(MISSING)
    assert watched.gone == ["g.jobs"]


@pytest.mark.parametrize("with_records", [True, False])
def test_a_topic_made_anew_is_gone_at_once(watched: Watched, with_records: bool) -> None:
    watched.feed.jobs.take([JOB])
    watched.look()
    assert watched.gone == []
    if with_records:
        watched.feed.jobs.take([JOB])
    else:
        watched.feed.jobs.reached(0)
    watched.look()
    assert watched.gone == ["g.jobs"]
    assert set(watched.topics.jobs.jobs) == ({"a"} if with_records else set()), "what was in it is not in it any more"


def test_what_happened_before_a_membership_began_does_not_matter(watched: Watched) -> None:
    watched.feed.jobs.take([JOB])
    watched.feed.jobs.take([JOB])
    watched.watch.begin()
    watched.look()
    assert watched.gone == []
