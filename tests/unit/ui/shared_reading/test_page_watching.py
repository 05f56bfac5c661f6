"""Which groups the page reads, and how long."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pytest
from group_records import record_of
from page_bench import SETTINGS, StillTopics
from waiting import wait_until

from airflow_provider.integration.memberships import deserted, group_now
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.shared_reading import watching
from airflow_provider.ui.shared_reading.watching import LET_GO_S, ClusterWatch, WatchedGroup, Watches
from airflow_provider.values.model import WorkerId


@dataclass
class Cluster:
    """:ivar names: its groups, or why they can't be listed
    :ivar read: the groups that are read now
    :ivar left: the groups whose workers have all gone, as brokers know; an error: none answers
    """

    names: list[str] | TopicError = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    left: set[str] | TransportError = field(default_factory=set)
    now: float = 0.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    class Topics(StillTopics):
        def __init__(self, settings: KafkaSettings, group: str) -> None:
            super().__init__(group=group, status=StatusSnapshot(group=record_of({WorkerId("w1"): frozenset()})))

        def attach(self) -> None:
            cluster.read.add(self.group)

        async def aclose(self) -> None:
            cluster.read.discard(self.group)

    class Admin:
        def __init__(self, config: object, outage: object) -> None: ...

        def close(self) -> None: ...

        async def groups(self, *, timeout_s: float) -> list[str]:
            if isinstance(cluster.names, TopicError):
                raise cluster.names
            return cluster.names

    async def have_classic_members(groups: Collection[str], _settings: KafkaSettings) -> dict[str, bool]:
        if isinstance(cluster.left, TransportError):
            raise cluster.left
        return {group: group not in cluster.left for group in groups}

    monkeypatch.setattr(deserted, "have_classic_members", have_classic_members)
    monkeypatch.setattr(group_now, "_ASK_AGAIN_S", 0.01)
    monkeypatch.setattr(watching, "FollowedTopics", Topics)
    monkeypatch.setattr(watching, "TopicAdmin", Admin)
    monkeypatch.setattr(watching, "_TICK_S", 0.01)
    monkeypatch.setattr(watching, "_LIST_AGAIN_S", 0.01)
    return cluster


@pytest.fixture
def watch(cluster: Cluster) -> Iterator[ClusterWatch]:
    watch = ClusterWatch(SETTINGS, clock=lambda: cluster.now)
    yield watch
    watch.close()


def looked_at(watch: ClusterWatch, group: str) -> WatchedGroup:
    wait_until(lambda: watch.look(group))
    found = watch.look(group)
    assert found is not None
    return found


def test_a_group_is_read_as_soon_as_somebody_looks_at_it(watch: ClusterWatch, cluster: Cluster) -> None:
    assert not cluster.read
    assert watch.look("etl") is None, "nobody waits for a broker"
    assert looked_at(watch, "etl").seen().group == "etl"
    assert cluster.read == {"etl"}


def test_it_is_let_go_when_nobody_has_looked_for_a_while(watch: ClusterWatch, cluster: Cluster) -> None:
    looked_at(watch, "etl")
    looked_at(watch, "other")
    cluster.now = LET_GO_S - 1
    watch.look("etl")
    cluster.now = LET_GO_S + 1
    wait_until(lambda: cluster.read == {"etl"})
    assert not watch.ended


def test_the_thread_ends_with_the_last_group_and_another_begins_when_somebody_looks(cluster: Cluster) -> None:
    watches = Watches()
    first = watches.of(SETTINGS)
    looked_at(first, "etl")
    wait_until(lambda: watches.of(SETTINGS) is first)
    first.close()
    assert cluster.read == set()
    second = watches.of(SETTINGS)
    assert second is not first
    looked_at(second, "etl")
    watches.close()
    assert cluster.read == set()


def test_unused_it_ends_by_itself(cluster: Cluster) -> None:
    watch = ClusterWatch(SETTINGS, clock=lambda: cluster.now)
    looked_at(watch, "etl")
    cluster.now = LET_GO_S + 1
    wait_until(lambda: watch.ended)
    assert cluster.read == set()


def test_all_groups_are_read_while_somebody_looks_at_all(watch: ClusterWatch, cluster: Cluster) -> None:
    cluster.names = ["one", "two"]
    wait_until(lambda: len(watch.look_at_all()[1]) == 2)
    assert watch.look_at_all()[0].names == ("one", "two")
    assert cluster.read == {"one", "two"}


def test_that_all_workers_of_a_group_were_killed_is_seen_although_none_can_write_it(
    watch: ClusterWatch, cluster: Cluster
) -> None:
    etl = looked_at(watch, "etl")

    def is_deserted() -> bool:
        cluster.now += 1
        watch.look("etl")
        return etl.seen().status.deserted

    before = etl.seen()
    assert not before.status.deserted
    cluster.left = {"etl", "other"}
    wait_until(is_deserted)
    assert etl.seen().version != before.version, "browsers hear of it"
    cluster.left = TransportError("no broker answers", fault=Fault.CONNECTION)
    wait_until(lambda: not is_deserted())


def test_groups_that_can_not_be_listed_any_more_are_still_known(watch: ClusterWatch, cluster: Cluster) -> None:
    cluster.names = ["one"]
    wait_until(lambda: watch.look_at_all()[0].names)
    cluster.names = TopicError("no broker answered")
    wait_until(lambda: watch.look_at_all()[0].problem)
    listing, groups = watch.look_at_all()
    assert (listing.names, listing.problem) == (("one",), "no broker answered")
    assert len(groups) == 1


def test_of_many_groups_those_are_read_that_were_looked_at_last(
    watch: ClusterWatch, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_GROUPS", 2)
    for number in range(4):
        cluster.now = number
        looked_at(watch, f"g{number}")
    wait_until(lambda: cluster.read == {"g2", "g3"})


def test_the_longer_it_takes_to_show_a_group_the_longer_the_same_is_shown() -> None:
    now = 0.0
    topics = StillTopics()
    group = topics.watched(lambda: now)
    assert not group.seen().away
    topics.away = "gone"
    assert not group.seen().away, "a moment later the same, for all who look on"
    now = 0.6
    with group.working():
        now = 1.6
    assert group.seen().away
    topics.away = None
    now = 6.5
    assert group.seen().away, "showing it took a second: it is looked at again after five"
    now = 6.7
    assert not group.seen().away


def test_a_group_that_is_being_read_is_looked_at_each_time() -> None:
    topics = StillTopics(caught_up=False)
    group = topics.watched(lambda: 0.0)
    assert not group.seen().whole
    topics.caught_up = True
    assert group.seen().whole
