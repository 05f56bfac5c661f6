"""A declarative group whose worker has gone: what its last record says, and nobody has told the coordinator."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import worker_status
from assigned_group import jobs as tasks_of_jobs

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.assignors.facts import SESSIONED, encode_facts
from airflow_provider.group.declarative.member.events import AssignmentComputed, ComputeAssignment
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
    SelectedAssignor,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.live.declarative import worker_assignors
from airflow_provider.group.live.declarative.worker_assignors import WorkerAssignors
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.records.status_topic.worker_absence import written_absences
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import UNKNOWN_MEMBER_ID, Epoch, MemberId, Tasks, WorkerId

RUNS, DEFERRED, HELD = WorkerId("runs"), WorkerId("sleeps"), WorkerId("held")
ALL = tasks_of_jobs({"a": 5})
OF_HELD = frozenset(sorted(ALL)[:4])
BEGAN = 1_700_000_000_000
LAST_HEARD = BEGAN - 60_000


def id_of(worker: WorkerId) -> MemberId:
    return MemberId(f"{worker}-id")


def said(worker: WorkerId, phase: WorkerPhase, **more: Any) -> WorkerStatus:
    return replace(worker_status(worker, 3, phase), member_id=id_of(worker), at_ms=LAST_HEARD, **more)


WAITS = said(HELD, WorkerPhase.DEFERRED, awaits=Awaited.PROCESS, returns_ms=10_000)
WAITS_FOR_TRIGGERER = replace(
    said(HELD, WorkerPhase.STABLE, awaits=Awaited.TRIGGERER, returns_ms=10_000), member_id=UNKNOWN_MEMBER_ID
)
AT_WORK = said(HELD, WorkerPhase.STABLE, returns_ms=10_000)


class Computing:
    """The member ``runs`` computes one target after the other. ``held`` has gone, and ``sleeps`` is deferred.

    :param last_word: the last record of ``held``
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, last_word: WorkerStatus) -> None:
        self.now = BEGAN
        monkeypatch.setattr(worker_assignors, "wall_ms", lambda: self.now)
        self.jobs = JobsSnapshot()
        records = (said(RUNS, WorkerPhase.STABLE), said(DEFERRED, WorkerPhase.DEFERRED), last_word)
        self.status = StatusSnapshot(workers={one.worker: one for one in records})
        topics: Any = self
        self._assignors = WorkerAssignors(
            (CooperativeAssignor(),),
            topics,
            worker=RUNS,
            member_id=id_of(RUNS),
            url="",
            slots=4,
            returns_ms=None,
        )
        self._members = {RUNS: InstalledMember(member_id=id_of(RUNS), connectors_and_tasks=units_of(ALL - OF_HELD))}
        self._members[DEFERRED] = InstalledMember(member_id=id_of(DEFERRED))
        self._departed = InstalledMember(member_id=id_of(HELD), connectors_and_tasks=units_of(OF_HELD))

    def reads(self, word: WorkerStatus) -> None:
        self.status = replace(self.status, workers={**self.status.workers, word.worker: word})

    def said(self) -> tuple[Assignor, ...]:
        """What its assignors tell the coordinator."""
        return self._assignors.said(0)

    def compute(self, *, delay_over_ms: int = 0) -> AssignmentComputed:
        prepared = ConnectGroupPrepareAssignmentResponse(
            group_epoch=GroupEpoch(4),
            assignor_name="cooperative",
            members=tuple(self._seen(name, one, delay_over_ms) for name, one in self._members.items()),
            departed=(self._seen(HELD, self._departed),),
            connectors_tasks=units_of(ALL),
        )
        done = asyncio.run(self._assignors.compute(ComputeAssignment(seq=1, prepared=prepared)))
        by_id = {one.member_id: one for one in (*done.members, *done.delayed)}
        self._members = {name: by_id[id_of(name)] for name in self._members}
        self._departed = by_id.get(id_of(HELD), self._departed)
        return done

    def _seen(self, name: WorkerId, one: InstalledMember, delay_over_ms: int = 0) -> PreparedMember:
        facts = WorkerFacts(slots=4, delay_over_ms=delay_over_ms if name == RUNS else 0)
        return PreparedMember(
            member_id=one.member_id,
            member_epoch=MemberEpoch(3),
            instance_id=name,
            assignor=SelectedAssignor(version=SESSIONED, metadata=encode_facts(facts, SESSIONED)),
            connectors_and_tasks=one.connectors_and_tasks,
            assigned_version=one.version,
            assigned_metadata=one.metadata,
        )


def shares(done: AssignmentComputed) -> dict[MemberId, Tasks]:
    return {one.member_id: tasks_of(one.connectors_and_tasks) for one in done.members}


def waits_ms(done: AssignmentComputed) -> int:
    assert done.record is not None
    return done.record.delay_ms


@pytest.mark.parametrize(
    ("last_word", "wait_ms"),
    [(WAITS, 10_000), (WAITS_FOR_TRIGGERER, 10_000), (AT_WORK, 300_000)],
    ids=["held back", "no triggerer", "lost"],
)
def test_its_tasks_wait_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch, last_word: WorkerStatus, wait_ms: int
) -> None:
    """The longest delay is for a worker of which nobody knows whether it comes back."""
    done = Computing(monkeypatch, last_word).compute()
    assert [tasks_of(one.connectors_and_tasks) for one in done.delayed] == [OF_HELD]
    assert waits_ms(done) == wait_ms


@pytest.mark.parametrize("why", [LeaveReason.STOPPED, LeaveReason.DRAINED, LeaveReason.KILLED])
@pytest.mark.parametrize("phase", [WorkerPhase.STOPPING, WorkerPhase.LEFT])
def test_nothing_waits_for_one_that_has_written_that_it_leaves_for_good(
    monkeypatch: pytest.MonkeyPatch, phase: WorkerPhase, why: LeaveReason
) -> None:
    """The coordinator may not have heard of it: the last heartbeat can get lost."""
    done = Computing(monkeypatch, said(HELD, phase, left=why)).compute()
    assert not done.delayed
    assert frozenset().union(*shares(done).values()) == ALL


def test_one_that_is_known_to_have_left_only_later_is_not_waited_for_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computing = Computing(monkeypatch, AT_WORK)
    assert waits_ms(computing.compute()) == 300_000
    computing.reads(said(HELD, WorkerPhase.LEFT, left=LeaveReason.STOPPED))
    assert not computing.compute().delayed


def test_who_has_computed_asks_for_another_target_when_it_reads_that_one_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computing = Computing(monkeypatch, AT_WORK)
    computing.status = replace(computing.status, group=computing.compute().record)
    before = computing.said()
    computing.now += 30_000
    assert computing.said() == before
    computing.reads(said(HELD, WorkerPhase.LEFT, left=LeaveReason.STOPPED))
    after = computing.said()
    assert after != before
    for _ in range(9):  # the record of the next target can't be written
        computing.now += 30_000
        assert computing.said() == after
    computing.status = replace(computing.status, group=computing.compute().record)
    computing.now += 30_000
    assert computing.said() == after


@pytest.mark.parametrize(("since", "counts"), [(3, True), (4, False)])
def test_what_one_without_a_member_id_has_written_counts_in_the_last_epoch(since: int, counts: bool) -> None:
    """Before that, it was another process with this name."""
    nobody = replace(said(HELD, WorkerPhase.LEFT, left=LeaveReason.STOPPED), member_id=UNKNOWN_MEMBER_ID)
    assert bool(written_absences({id_of(HELD): HELD}, {HELD: nobody}, since=Epoch(since))) is counts


def test_a_record_of_another_process_under_its_name_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits_ms(Computing(monkeypatch, replace(WAITS, member_id=MemberId("other"))).compute()) == 300_000


@pytest.mark.parametrize(("last_word", "gets_some"), [(WAITS, False), (AT_WORK, True)], ids=["held back", "lost"])
def test_then_they_go_to_workers_that_run(
    monkeypatch: pytest.MonkeyPatch, last_word: WorkerStatus, gets_some: bool
) -> None:
    """What holds back its process may hold back those of other deferred workers, too."""
    computing = Computing(monkeypatch, last_word)
    computing.now += waits_ms(computing.compute())
    done = computing.compute(delay_over_ms=computing.now)
    assert not done.delayed
    assert frozenset().union(*shares(done).values()) == ALL
    assert bool(shares(done)[id_of(DEFERRED)]) is gets_some


def test_deferred_workers_are_tried_again_after_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    computing = Computing(monkeypatch, WAITS)
    computing.now += 541_000
    computing.compute()
    computing.now += 10_000
    assert shares(computing.compute(delay_over_ms=computing.now))[id_of(DEFERRED)]
