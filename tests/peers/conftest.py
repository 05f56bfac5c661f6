from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from connect_workers import ConnectWorkers, connect_workers
from java_classes import compile_java
from left_open import pytest_runtest_protocol as pytest_runtest_protocol
from mixed_group import MixedGroup
from referee import Referee, running_referee

from airflow_provider.servers.local_broker import LocalBroker


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own Java sources, compiled once for all tests."""
    classes = tmp_path_factory.mktemp("java-classes")
    compile_java(classes)
    return classes


@pytest.fixture(scope="session")
def referee(java_classes: Path) -> Iterator[Referee]:
    """Java Kafka Connect's own classes; without Java, the tests that need them fail and say so."""
    with running_referee(java_classes) as referee:
        yield referee


@pytest.fixture(scope="session")
def java_workers(java_classes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorkers]:
    """A Java process for Connect workers; use worker names and groups of your own."""
    with connect_workers(java_classes, tmp_path_factory.mktemp("connect-workers")) as workers:
        yield workers


@pytest.fixture
async def group(java_workers: ConnectWorkers, broker: LocalBroker, group_id: str) -> AsyncIterator[MixedGroup]:
    """A group that has no workers yet."""
    async with MixedGroup(java_workers, broker.bootstrap_servers, group_id) as group:
        yield group
