"""A worker whose membership was handed over, and whom Airflow does not start: its pool is full, its DAG is paused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from airflow_values import group_record, worker_status
from led_group import Group, member

from airflow_provider.assignment.model import Memory
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.member.events import PerformAssignment
from airflow_provider.group.live.classic.leading import absent_since, gather_call
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.records.status_topic.worker_absence import may_not_be_started
from airflow_provider.state.reports.groups.worker_words import worker_in_words
from airflow_provider.state.views.slots.free_slots import spare_capacity
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol, TaskId, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
SINCE = "(since 2026-01-01 00:00:00 UTC)"


@pytest.mark.parametrize(
    ("awaits", "phase"), [(Awaited.PROCESS, WorkerPhase.DEFERRED), (Awaited.TRIGGERER, WorkerPhase.STABLE)]
)
def test_it_is_shown_as_waiting_in_the_group_and_when_its_session_is_over(awaits: Awaited, phase: WorkerPhase) -> None:
    waits = awaits.in_words
    said = replace(worker_status("w1", 3, phase), awaits=awaits, condition=f"{waits} {SINCE}")
    there = StatusSnapshot(group=group_record(3), workers={W1: said})
    assert worker_in_words(W1, there) == f"{phase.value}, {waits} {SINCE}"
    lost = {W1: frozenset({TaskId("job", 0)})}
    gone = group_record(4, members={}, assignment={}, memory=Memory(assignment=lost, deadline_ms=9_000))
    assert worker_in_words(W1, replace(there, group=gone)) == f"{waits} {SINCE}", "it is not lost"


@pytest.mark.parametrize("awaits", Awaited)
def test_a_record_of_an_earlier_release_says_it_in_words_alone(awaits: Awaited) -> None:
    said = replace(worker_status("w1", 3), awaits=awaits, condition=f"{awaits.in_words} {SINCE}")
    assert WorkerStatus.from_json(said.to_json()) == said
    earlier = {name: value for name, value in said.to_json().items() if name != "awaits"}
    assert WorkerStatus.from_json(earlier) == said


def test_what_only_begins_with_other_words_waits_for_nothing() -> None:
    said = replace(worker_status("w1", 3), condition="waits for executors")
    assert WorkerStatus.from_json(said.to_json()).awaits is None
    assert "awaits" not in said.to_json()


def test_its_tasks_wait_as_long_for_it_as_it_says() -> None:
    said = replace(worker_status("w1", 3, WorkerPhase.DEFERRED), returns_ms=10_000)
    assert absent_since(group_record(3), [], {W1: said})[W1].at_most_ms == 10_000


class TestOthersThatAreDeferred:
    """What holds its process back may hold theirs back, too: its tasks go to workers that run, not to one of them."""

    NOW_MS = 1_000_000
    W9 = WorkerId("w9")

    def records(self, *, waits_s: float, deferred: bool = True) -> dict[WorkerId, WorkerStatus]:
        """w9 was lost while it waited for its process; w1 runs, and w2 is deferred."""
        waiting = replace(
            worker_status("w9", 5, WorkerPhase.DEFERRED),
            awaits=Awaited.PROCESS,
            at_ms=self.NOW_MS - int(waits_s * 1000),
        )
        phase = WorkerPhase.DEFERRED if deferred else WorkerPhase.STABLE
        return {W1: worker_status("w1", 5), W2: worker_status("w2", 5, phase), self.W9: waiting}

    @pytest.mark.parametrize(
        ("waits_s", "deferred", "held_back"),
        [(90, True, {"w2"}), (90, False, set()), (601, True, set()), (-601, True, set())],
        ids=["deferred", "it runs", "they are tried again", "a record of the future holds nobody back"],
    )
    def test_a_deferred_worker_counts_as_one_that_starts_nothing(
        self, waits_s: float, deferred: bool, held_back: set[str]
    ) -> None:
        said = self.records(waits_s=waits_s, deferred=deferred)
        assert may_not_be_started({W1, W2}, said, wall_ms=self.NOW_MS) == held_back

    def test_as_long_as_its_session_lasts_nobody_knows(self) -> None:
        said = self.records(waits_s=30)
        assert not may_not_be_started({W1, W2, self.W9}, said, wall_ms=self.NOW_MS)

    def test_the_leader_gives_tasks_to_those_that_run(self) -> None:
        group = Group({"w1": "r", "w2": "", "w9": "p"})
        members = tuple(member(name, group.record.owned_by(name)) for name in (W1, W2))
        command = PerformAssignment(
            seq=1,
            generation=GenerationId(6),
            protocol=SubProtocol.SESSIONED,
            leader=MemberId("w1"),
            last_completed=GenerationId(5),
            members=members,
            last_record=group.record,
            reason="w9 got lost",
        )
        for said, expected in ((self.records(waits_s=90), {"w1": 2, "w2": 0}), ({}, {"w1": 1, "w2": 1})):
            status = replace(group.status, workers=said)
            call = gather_call(command, group.jobs, status, policy=IMMEDIATE, at_ms=self.NOW_MS)
            record = lead(call).record
            assert record is not None
            assert {name: len(tasks) for name, tasks in record.assignment.items()} == expected

    def test_the_leader_asks_for_no_round_to_fill_their_slots(self) -> None:
        group = Group({"w1": "r p", "w2": ""})
        for said, asks in ((self.records(waits_s=90), False), ({}, True)):
            status = replace(group.status, workers=said)
            assert bool(spare_capacity(group.jobs, status, wall_ms=self.NOW_MS)) is asks
