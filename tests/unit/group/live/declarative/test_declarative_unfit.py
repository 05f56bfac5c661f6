"""Tasks of a declarative group that should be tried elsewhere: their worker asks for an assignment, and again if that
changed nothing; and where they are then, they stay.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from blamed_group import A0, A1, A2, A3, NOW, W1, W2, Blamed, failed_beside_healthy

from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.assignors.facts import SESSIONED, decode_facts, encode_facts
from airflow_provider.group.declarative.member.events import ComputeAssignment
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupPrepareAssignmentResponse,
    PreparedMember,
    SelectedAssignor,
)
from airflow_provider.group.live.declarative import worker_assignors
from airflow_provider.group.live.declarative.worker_assignors import WorkerAssignors
from airflow_provider.values.model import NO_TASKS, MemberId, Tasks, WorkerId


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

    def computes(self, shares: dict[WorkerId, Tasks]) -> dict[MemberId, Tasks]:
        """The next shares, from those that the coordinator knows."""
        prepared = ConnectGroupPrepareAssignmentResponse(
            group_epoch=GroupEpoch(9),
            assignor_name="cooperative",
            members=tuple(_prepared(worker, tasks) for worker, tasks in shares.items()),
            connectors_tasks=units_of(NO_TASKS.union(*shares.values())),
        )
        done = asyncio.run(self._assignors.compute(ComputeAssignment(seq=1, prepared=prepared)))
        return {one.member_id: tasks_of(one.connectors_and_tasks) for one in done.members}


def _prepared(worker: WorkerId, tasks: Tasks) -> PreparedMember:
    return PreparedMember(
        member_id=MemberId(worker),
        member_epoch=MemberEpoch(8),
        instance_id=worker,
        assignor=SelectedAssignor(version=SESSIONED, metadata=encode_facts(WorkerFacts(slots=4), SESSIONED)),
        connectors_and_tasks=units_of(tasks),
    )


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


def test_who_has_not_read_the_record_of_their_move_does_not_take_them_back(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Blamed({"w1": "p p p p", "w2": ""})
    every = frozenset({A0, A1, A2, A3})
    for task in every:
        group.fails(task, W1)
    moved = {W1: NO_TASKS, W2: every}
    assert Asking(monkeypatch, group, W1).computes(moved) == {MemberId(W1): NO_TASKS, MemberId(W2): every}


def test_what_has_not_failed_is_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Blamed({"w1": "", "w2": "p p p p"})
    shares = Asking(monkeypatch, group, W1).computes({W1: NO_TASKS, W2: frozenset({A0, A1, A2, A3})})
    assert [len(tasks) for tasks in shares.values()] == [2, 2]
