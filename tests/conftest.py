"""Fixtures that more than one level of tests needs: a real broker, names that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider.kafka.local import LocalBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """A real broker, shared by all tests of the run: don't stop it, and use group and topic names of your own."""
    with LocalBroker() as running:
        yield running


@pytest.fixture
def group_id() -> str:
    """The name of a group that no other test uses."""
    return f"group-{uuid.uuid4().hex[:12]}"
