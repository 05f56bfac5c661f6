"""Whether a group has declarative workers, before a classic one joins."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.integration.memberships import declarative_workers
from airflow_provider.integration.memberships.declarative_workers import (
    DeclarativeWorkersError,
    refuse_beside_declarative_workers,
)
from airflow_provider.kafka.topics.errors import RightsError
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.state.rounds.declarative import DeclarativeRecord

SETTINGS: Any = object()


def topics_after(record: object) -> Any:
    return SimpleNamespace(status=SimpleNamespace(group=record))


@pytest.fixture
def declarative() -> Any:
    """Topics of a group whose last record is a declarative one."""
    return topics_after(object.__new__(DeclarativeRecord))


def records_of(*members: str) -> Any:
    group = SimpleNamespace(members={f"{name}-id": SimpleNamespace(instance_id=name) for name in members})

    def read(_settings: object, *, timeout_s: float, only: str | None = None) -> Any:
        assert timeout_s > 0
        return {only: group}

    return read


async def test_it_names_who_is_there(declarative: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarative_workers, "read_groups", records_of("d2", "d1", "d4", "d3"))
    with pytest.raises(
        DeclarativeWorkersError, match=r"'etl' has workers .*: d1, d2, d3 and 1 more; they would run"
    ) as it:
        await refuse_beside_declarative_workers(SETTINGS, "etl", declarative)
    assert str(pickle.loads(pickle.dumps(it.value))) == str(it.value)


async def test_who_was_the_last_one_keeps_nobody_out(declarative: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarative_workers, "read_groups", records_of())
    await refuse_beside_declarative_workers(SETTINGS, "etl", declarative)


@pytest.mark.parametrize("record", [None, object()])
async def test_where_a_classic_worker_led_last_nothing_is_read(record: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_settings: object, *, timeout_s: float, only: str | None = None) -> None:
        pytest.fail(f"within {timeout_s} s the records of {only} are read")

    monkeypatch.setattr(declarative_workers, "read_groups", read)
    await refuse_beside_declarative_workers(SETTINGS, "etl", topics_after(record))


async def test_who_may_not_look_is_warned(
    declarative: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def forbidden(_settings: object, *, timeout_s: float, only: str | None = None) -> None:
        raise RightsError((Right("__worker_offsets", Operation.READ),), "User:w")

    monkeypatch.setattr(declarative_workers, "read_groups", forbidden)
    await refuse_beside_declarative_workers(SETTINGS, "etl", declarative)
    assert "'etl' has workers in the declarative protocol: User:w has no right to" in caplog.text
