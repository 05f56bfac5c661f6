"""A DAG run learns what it was started for, each event once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider.integration.told_once import told_once

ASSET: Any = "one"
OTHER: Any = "other"
"""Airflow's own mappings find assets in their own way; in Python's, those of Airflow 3.1 can't be keys."""
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass
class Stored:
    """An asset event."""

    timestamp: datetime
    extra: dict[str, Any] | None


def stored(at_s: int, event_id: str, *, perhaps_again: bool = False) -> Stored:
    payload = {"events": [{"id": event_id, "event": "rebalanced"}], "perhaps_again": perhaps_again}
    extra = {"from_trigger": True, "payload": payload}
    return Stored(BEGAN + timedelta(seconds=at_s), extra)


class Inlet:
    """As Airflow answers for all events of an asset."""

    def __init__(self, *events: Stored) -> None:
        self.events = list(events)

    def before(self, before: str) -> Inlet:
        return Inlet(*(event for event in self.events if event.timestamp <= datetime.fromisoformat(before)))

    def ascending(self, ascending: bool = True) -> Inlet:
        return Inlet(*sorted(self.events, key=lambda event: event.timestamp, reverse=not ascending))

    def limit(self, limit: int) -> Inlet:
        return Inlet(*self.events[:limit])

    def __iter__(self) -> Any:
        return iter(self.events)


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["id"] for event in events]


def test_they_come_in_the_order_in_which_they_were_stored_each_once() -> None:
    came = {ASSET: [stored(3, "c"), stored(1, "a"), stored(4, "a")], OTHER: [stored(2, "b")]}
    assert ids(told_once(came)) == ["a", "b", "c"]


def listed(*events: Stored) -> list[Stored]:
    """As Airflow 3.1 answers."""
    return list(events)


@pytest.mark.parametrize("inlet", [Inlet, listed])
def test_what_an_earlier_run_was_started_for_is_left_out(inlet: Callable[..., Any]) -> None:
    before = [stored(0, "a"), stored(1, "b")]
    came = [stored(5, "b", perhaps_again=True), stored(6, "c", perhaps_again=True), stored(6, "d")]
    assert ids(told_once({ASSET: came}, {ASSET: inlet(*before, *came)})) == ["c", "d"]
    assert ids(told_once({ASSET: came[:1]}, {ASSET: inlet(*before, *came)})) == []


def test_what_somebody_else_says_of_the_asset_is_nothing_of_ours() -> None:
    others = [Stored(BEGAN, None), Stored(BEGAN, {}), Stored(BEGAN, {"payload": "x"}), Stored(BEGAN, {"payload": {}})]
    assert told_once({ASSET: others}) == []
    assert told_once({}, {}) == []


def test_an_asset_that_is_no_inlet_is_named_where_it_matters() -> None:
    assert ids(told_once({ASSET: [stored(1, "a")]}, {})) == ["a"], "it can't have been stored before"
    with pytest.raises(KeyError, match="one"):
        told_once({ASSET: [stored(1, "a", perhaps_again=True)]}, {})
