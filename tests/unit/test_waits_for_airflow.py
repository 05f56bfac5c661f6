"""A worker whose membership was handed over, and whom Airflow does not start: its pool is full, its DAG is paused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow_values import group_record, worker_status

from airflow_provider.assignors.model import Memory
from airflow_provider.group.leading import absences
from airflow_provider.ledger.presence import WAITS_FOR_PROCESS, WAITS_FOR_TRIGGERER
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId, WorkerId
from airflow_provider.records import WorkerPhase
from airflow_provider.reports.worker_words import worker_in_words

W1 = WorkerId("w1")
SINCE = "(since 2026-01-01 00:00:00 UTC)"


@pytest.mark.parametrize(
    ("waits", "phase"), [(WAITS_FOR_PROCESS, WorkerPhase.DEFERRED), (WAITS_FOR_TRIGGERER, WorkerPhase.STABLE)]
)
def test_it_is_shown_as_waiting_in_the_group_and_when_its_session_is_over(waits: str, phase: WorkerPhase) -> None:
    said = replace(worker_status("w1", 3, phase), condition=f"{waits} {SINCE}")
    there = StatusSnapshot(group=group_record(3), workers={W1: said})
    assert worker_in_words(W1, there) == f"{phase.value}, {waits} {SINCE}"
    lost = {W1: frozenset({TaskId("job", 0)})}
    gone = group_record(4, members={}, assignment={}, memory=Memory(assignment=lost, deadline_ms=9_000))
    assert worker_in_words(W1, replace(there, group=gone)) == f"{waits} {SINCE}", "it is not lost"


def test_its_tasks_wait_as_long_for_it_as_it_says() -> None:
    said = replace(worker_status("w1", 3, WorkerPhase.DEFERRED), returns_ms=10_000)
    assert absences([], group_record(3), {W1: said})[W1].at_most_ms == 10_000
