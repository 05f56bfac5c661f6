"""Which of the unit tests say how much of the code is tested, and which turn the clock themselves."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from strict_patching import be_strict
from turned_clock import CLOCK, TurnedLoop

from airflow_provider.group.classic.wire import columns, fields
from airflow_provider.values import packed_tasks, recent
from airflow_provider.values.recent import Recent

_HERE = Path(__file__).parent
# What tests import stands beside the tests of what it is for, and is imported by name from any folder.
sys.path.extend(sorted({str(file.parent) for file in _HERE.glob("*/**/*.py")}))
# Where the task instances of these tests are. Airflow reads it when it is asked.
os.environ["AIRFLOW__API__BASE_URL"] = "http://airflow.example"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with random values do not: what they come across is another time something else, and to watch each line of
    so many examples takes several times as long as they do.
    """
    for item in items:
        if item.path.is_relative_to(_HERE) and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"loop": TurnedLoop if item.get_closest_marker("turned_clock") else asyncio.SelectorEventLoop}


@pytest.fixture(autouse=True)
def _strict_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    be_strict(monkeypatch)


@pytest.fixture(autouse=True)
def _threads_of_nobody() -> Iterator[None]:
    """A test that makes threads those of tasks (``isolation/thread_owners.py``) undoes that for the others."""
    yield
    starts = threading.Thread.start.__module__
    assert not starts.startswith("airflow_provider"), "threads still belong to the tasks of this test"


@pytest.fixture(scope="module")
def nothing_kept() -> Iterator[None]:
    """What is written is read, and what was read is read again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent, "_MOST_BYTES", 0)
        for known in _KEPT:
            known.clear()
        yield
    for known in _KEPT:
        known.clear()


_KEPT: Final[Sequence[Recent[Any, Any]]] = (
    fields.READ,
    packed_tasks.PACKED,
    packed_tasks.UNPACKED,
    columns.WRITTEN,
    columns.READ,
)


@pytest.fixture(autouse=True)
def _clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("turned_clock"):
        CLOCK.take_over(monkeypatch)
