"""Everything in this folder talks to a real broker or a real Spark."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from begun import begins_at_once
from fleet import Fleet, MakeFleet
from left_open import pytest_runtest_protocol as pytest_runtest_protocol
from proxied import Network, proxied_broker
from quick_spark import have_spark_start_quickly
from runner_bench import BENCH, SEEN, SETTINGS, SHARED, SIGNALS, Events
from shard_bench import QUICK, make_topics, quick_broker, remove_topics
from shared_servers import ServerForTrials, server_for_trials, shared_server
from standalone import StandaloneCluster
from topic_bench import settings_of
from waiting import DEADLINE_S, wait_until

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics import clients
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.spark.local.application.spark_application import APPLICATION
from airflow_provider.spark.runners.local import LocalRunner

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)  # after those that shuffle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that share a Spark last: before them, others may start one with settings of their own."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)
    items.sort(key=_shares_spark)


def _shares_spark(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and spark_application.__name__ in item.fixturenames


@pytest.fixture(scope="session", autouse=True)
def quick_spark() -> None:
    have_spark_start_quickly()


@pytest.fixture(scope="session")
def server() -> Iterator[LocalConnectServer]:
    """A Spark Connect server, shared by all tests of the run: don't end it, and leave nothing running there."""
    with shared_server() as server:
        yield server


@pytest.fixture(scope="session")
def for_trials() -> Iterator[ServerForTrials]:
    """A Spark Connect server with a token, started by the command for trials, and shared like the other one."""
    with server_for_trials() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[StandaloneCluster]:
    """A standalone cluster with two cores, shared by all tests of the run: leave no application running there."""
    with StandaloneCluster() as started:
        started.add_worker(cores=2)
        yield started


@pytest.fixture(scope="session")
def proxied() -> Iterator[Network]:
    with proxied_broker(2) as running:
        yield running


@pytest.fixture
def network(proxied: Network) -> Iterator[Network]:
    """A broker behind two proxies, shared by all tests of the run: use names of your own. What a test has cut, stalled
    or slowed down is healed after it.
    """
    yield proxied
    for way in proxied.ways:
        way.heal()


@pytest.fixture(scope="session")
def shard_network() -> Iterator[Network]:
    """A broker with the shards' topics, behind a proxy, shared by all tests of the run: leave all that as it is."""
    with quick_broker() as running:
        yield running


@pytest.fixture(scope="session")
def spoilt() -> Iterator[LocalBroker]:
    with LocalBroker(properties=QUICK, start_timeout_s=DEADLINE_S) as running:
        yield running


@pytest.fixture
def spoilt_broker(spoilt: LocalBroker) -> LocalBroker:
    """A broker without topics of shards; a test may make them, and leave them in whatever state."""
    remove_topics(spoilt.bootstrap_servers)
    return spoilt


@pytest.fixture
def shard_config(spoilt_broker: LocalBroker) -> dict[str, str]:
    """How to reach that broker, which has topics of shards now."""
    make_topics(spoilt_broker.bootstrap_servers)
    return {"bootstrap.servers": spoilt_broker.bootstrap_servers}


@pytest.fixture(scope="session")
def shard_broker(shard_network: Network) -> LocalBroker:
    return shard_network.broker


@pytest.fixture
def fleet(broker: LocalBroker, group_id: str, tmp_path: Path) -> MakeFleet:
    """Makes a group of worker processes with these options; none is started yet."""

    def make(*options: str) -> Fleet:
        return Fleet(broker.bootstrap_servers, group_id, tmp_path, *options)

    return make


@pytest.fixture
def settings(broker: LocalBroker) -> KafkaSettings:
    """How to reach the shared broker."""
    return settings_of(broker.bootstrap_servers)


@pytest.fixture
def nothing_left_open() -> Iterator[None]:
    """When a test is over, all readers of topics in this process are closed and their threads have ended."""
    yield
    assert not clients._open.own.clients

    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("cospark-topic")]

    wait_until(lambda: not names(), names)


@pytest.fixture(scope="session")
def spark_application() -> Iterator[None]:
    """One Spark of this process, which the runners of all tests that ask for it share."""
    APPLICATION.running_for(SHARED, SETTINGS)
    yield
    APPLICATION.release(SHARED)


@pytest.fixture
def events() -> Events:
    """The events of the runner."""
    return Events()


@pytest.fixture
async def runner(events: Events, request: pytest.FixtureRequest) -> AsyncIterator[LocalRunner]:
    """A local runner for the jobs of the test's module and of the bench; it is empty at the end."""
    SIGNALS.clear()
    SEEN.clear()
    allowed = [request.module.__name__, BENCH]
    runner = begins_at_once(LocalRunner(events, allowed=allowed, settings=SETTINGS))
    yield runner
    for waiting in SIGNALS.values():
        waiting.set()
    assert await runner.close() == frozenset()
