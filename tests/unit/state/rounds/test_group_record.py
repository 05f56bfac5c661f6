"""Who looks on needs of a group's record what any group protocol says of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from group_records import record_of

from airflow_provider.assignment.model import Memory
from airflow_provider.state.reports.narration import epoch_in_words
from airflow_provider.state.reports.report import GroupReport
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import converged
from airflow_provider.values.model import ConfigOffset, Epoch, GenerationId, MemberId, TaskId, Tasks, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
A0, A1 = TaskId("a", 0), TaskId("a", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared(GroupRecord):
    """Of a protocol in which a coordinator counts targets."""

    target: int

    @property
    def round_id(self) -> Mapping[str, int]:
        return {"target": self.target}

    @property
    def deadline_ms(self) -> int:
        return self.at_ms + self.delay_ms if self.delay_ms else 0

    @property
    def waiting_by_worker(self) -> Mapping[WorkerId, Tasks]:
        return {W2: frozenset({A1})}

    def is_same_round(self, other: GroupRecord) -> bool:
        return self.epoch == other.epoch

    def without_memory(self) -> Declared:
        return self


RECORD = Declared(
    epoch=Epoch(7),
    leader=W1,
    config_offset=ConfigOffset(3),
    members={W1: MemberId("m1")},
    assignment={W1: frozenset({A0})},
    revoked={},
    moves=(),
    delay_ms=5_000,
    reason="w2 got lost",
    at_ms=1_000,
    target=12,
)


def test_a_record_of_another_protocol_is_told_and_reported() -> None:
    first, *_ = lines = list(epoch_in_words(RECORD, W1))
    assert first == "Epoch 7 (target 12), led by this worker, with 1 worker: w1 (w2 got lost)"
    assert "  Lost tasks wait for their worker for 5 s" in lines
    report = GroupReport.of(JobsSnapshot(), StatusSnapshot(group=RECORD))
    assert report is not None
    told = report.to_json()
    assert (told["epoch"], told["target"], told["deadline_ms"]) == (7, 12, 6_000)
    assert "generation" not in told
    assert not converged(RECORD, {})


def test_a_classic_record_is_of_one_round_by_its_generation_and_leader() -> None:
    record = record_of(epoch=5)
    assert record.is_same_round(record_of({W1: frozenset({A0})}, epoch=6, generation=GenerationId(5)))
    assert not record.is_same_round(record_of(epoch=5, leader_member=MemberId("m2")))
    assert not record.is_same_round(RECORD)


def test_what_waits_is_known_by_the_worker_that_had_it() -> None:
    had = {W1: frozenset({A0}), W2: frozenset({A1})}
    waiting = record_of({W1: had[W1]}, memory=Memory(assignment=had, deadline_ms=9))
    assert waiting.waiting_by_worker == {W2: frozenset({A1})}
    assert waiting.waiting == {A1}
    assert record_of({W1: had[W1]}, memory=Memory(assignment=had)).waiting == frozenset()
