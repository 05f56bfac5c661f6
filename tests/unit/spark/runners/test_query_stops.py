"""Queries are told to stop before anything else is cancelled: Spark would take that for a failure of theirs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.runners import query_stops
from airflow_provider.spark.runners.query_stops import stop_queries


class Query:
    """It stops at once, or when something has happened."""

    def __init__(self, done: list[str], ends: threading.Event | None = None, tells: threading.Event | None = None):
        self._done = done
        self._ends = ends
        self._tells = tells

    def stop(self) -> None:
        if self._tells is not None:
            self._tells.set()
        if self._ends is not None:
            assert self._ends.wait(DEADLINE_S)
        self._done.append("stopped")


def stop(*queries: Any, cancel: Any) -> None:
    stop_queries(queries, cancel)


def test_while_queries_stop_by_themselves_nothing_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_stops, "ALONE_S", DEADLINE_S)
    done: list[str] = []
    stop(Query(done), Query(done), cancel=lambda: done.append("cancelled"))
    assert done == ["stopped", "stopped"]


def test_all_are_told_before_one_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_stops, "ALONE_S", DEADLINE_S)
    done, told = list[str](), threading.Event()
    stop(Query(done, ends=told), Query(done, tells=told), cancel=lambda: done.append("cancelled"))
    assert done == ["stopped", "stopped"]


def test_jobs_are_cancelled_as_long_as_a_query_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch waits for a thread of the task, which starts one job after the other."""
    monkeypatch.setattr(query_stops, "ALONE_S", 0.01)
    done, jobs, cancelled = list[str](), iter(range(3)), threading.Event()

    def cancel() -> None:
        if next(jobs, None) is None:
            cancelled.set()

    stop(Query(done, ends=cancelled), cancel=cancel)
    assert done == ["stopped"]


def test_that_one_cannot_be_told_is_an_error() -> None:
    class Refuses(Query):
        def stop(self) -> None:
            raise RuntimeError("no answer")

    done: list[str] = []
    with pytest.raises(RuntimeError, match="no answer"):
        stop(Refuses(done), Query(done), cancel=lambda: None)
    assert done == ["stopped"], "the others have stopped nevertheless"
