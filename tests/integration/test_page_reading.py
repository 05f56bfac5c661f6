"""The page reads the groups of a cluster that goes away and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from proxied import Network
from topic_bench import JOB, settings_of
from waiting import DEADLINE_S

from airflow_provider.integration.one_shot import submit_job
from airflow_provider.ui.shared_reading.watching import ClusterWatch, Seen, WatchedGroup
from demo.airflow_api import wait_until

GROUP = "page-reading"


@pytest.fixture
def watch(network: Network) -> Iterator[ClusterWatch]:
    watch = ClusterWatch(settings_of(network.ways[0].address))
    yield watch
    watch.close()


def looked_at(watch: ClusterWatch, group: str) -> WatchedGroup:
    return wait_until(lambda: watch.look(group), timeout_s=DEADLINE_S, what=lambda: "the group is not read")


def seen_when(group: WatchedGroup, holds: Callable[[Seen], object]) -> Seen:
    def look() -> Seen | None:
        seen = group.seen()
        return seen if holds(seen) else None

    return wait_until(look, timeout_s=DEADLINE_S, what=lambda: f"{group.seen()}")


@pytest.mark.usefixtures("nothing_left_open")
def test_the_page_keeps_what_it_knew_while_no_broker_can_be_reached(network: Network, watch: ClusterWatch) -> None:
    submit_job(settings_of(network.near), GROUP, JOB)
    group = looked_at(watch, GROUP)
    before = seen_when(group, lambda seen: seen.whole)
    assert list(before.jobs.jobs) == [JOB.name]
    wait_until(lambda: GROUP in (watch.look_at_all()[0].names or ()), timeout_s=DEADLINE_S, what=lambda: "not listed")
    network.ways[0].cut()
    away = seen_when(group, lambda seen: seen.away)
    assert network.ways[0].address in away.away
    assert away.jobs == before.jobs
    assert away.version != before.version
    network.ways[0].heal()
    assert seen_when(group, lambda seen: not seen.away).jobs == before.jobs


@pytest.mark.usefixtures("nothing_left_open")
def test_a_group_that_does_not_exist_is_reported(watch: ClusterWatch) -> None:
    assert "does not exist" in seen_when(looked_at(watch, "no-such-group"), lambda seen: seen.missing).problem


@pytest.mark.usefixtures("nothing_left_open")
def test_events_are_read_only_when_asked_for(network: Network, watch: ClusterWatch) -> None:
    submit_job(settings_of(network.near), GROUP, JOB)
    feed = looked_at(watch, GROUP).events()
    wait_until(lambda: feed.whole, timeout_s=DEADLINE_S, what=lambda: "the events are not read")
    assert not feed.timeline().attempts
