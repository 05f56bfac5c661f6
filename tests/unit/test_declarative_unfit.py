"""A worker of a declarative group asks for an assignment when its task should be tried elsewhere, and again if that
changed nothing.
"""

from __future__ import annotations

from typing import Any

import pytest
from blamed_group import A0, A2, NOW, W1, W2, Blamed, failed_beside_healthy

from airflow_provider.client_assignors import CooperativeAssignor
from airflow_provider.client_assignors.facts import decode_facts
from airflow_provider.group import worker_assignors
from airflow_provider.group.worker_assignors import WorkerAssignors
from airflow_provider.protocol.model import MemberId, WorkerId


class Asking:
    """What a worker's assignor says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, group: Blamed, worker: WorkerId) -> None:
        self.jobs = group.jobs
        self.status = group.status
        self.now = NOW
        monkeypatch.setattr(worker_assignors, "wall_ms", lambda: self.now)
        topics: Any = self
        self._assignors = WorkerAssignors(
            (CooperativeAssignor(),),
            topics,
            worker=worker,
            member_id=MemberId(worker),
            url="",
            slots=4,
            returns_ms=None,
        )

    @property
    def unfit_at_ms(self) -> int:
        (said,) = self._assignors.said(0)
        return decode_facts(said.metadata, said.version).unfit_at_ms


def test_it_asks_once_and_again_if_nobody_had_read_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    group = failed_beside_healthy()
    asking = Asking(monkeypatch, group, W1)
    assert asking.unfit_at_ms == NOW
    asking.now += 2_999
    assert asking.unfit_at_ms == NOW
    asking.now += 1
    assert asking.unfit_at_ms == NOW + 3_000


def test_it_says_the_same_when_the_task_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another change would cause another assignment."""
    group = failed_beside_healthy()
    asking = Asking(monkeypatch, group, W1)
    assert asking.unfit_at_ms == NOW
    group.hand(A0, W2)
    asking.status = group.status
    asking.now += 60_000
    assert asking.unfit_at_ms == NOW


def test_nobody_asks_for_a_task_of_another_or_without_a_better_place(monkeypatch: pytest.MonkeyPatch) -> None:
    group = failed_beside_healthy()
    assert Asking(monkeypatch, group, W2).unfit_at_ms == 0
    group.tell(A2, progress=None)
    assert Asking(monkeypatch, group, W1).unfit_at_ms == 0
