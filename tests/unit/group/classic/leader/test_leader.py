"""What a leader makes of a round: assignments as bytes, and the record for those who come after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from embedded_bytes import decode_assignment, encode_metadata
from member_script import tasks

from airflow_provider.assignment.model import MoveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import LeaderAnswer, lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.state.rounds.classic import ClassicRecord, newer
from airflow_provider.values.model import (
    Assignment,
    AssignmentError,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    WorkerId,
    WorkerState,
)

W1, W2 = WorkerId("w1"), WorkerId("w2")
ALL = "a0 a1 a2 b0 b1 b2"
D = 300_000
NOW = 1_700_000_000_000


def member(name: str, owned: str | None = None, *, offset: int = 7, version: int = 1) -> JoinedMember:
    """A static member that says it owns these; None: it says nothing of it."""
    own = None if owned is None or not version else Assignment(version=version, assigned=tasks(owned))
    state = WorkerState(version=version, url=f"http://{name}", config_offset=ConfigOffset(offset), assignment=own)
    return JoinedMember(member_id=MemberId(f"{name}-1"), instance_id=name, metadata=encode_metadata(state))


def call(*members: JoinedMember, generation: int = 1, last: ClassicRecord | None = None, **changes: Any) -> Call:
    standard = Call(
        generation=GenerationId(generation),
        protocol=SubProtocol.COMPATIBLE,
        leader=members[0].member_id,
        last_completed=GenerationId(-1 if last is None else last.generation),
        members=members,
        configured=tasks(ALL),
        config_offset=ConfigOffset(7),
        last_record=last,
        policy=Deferred(max_delay_ms=D),
        now_ms=NOW,
        reason="a test",
    )
    return replace(standard, **changes)


def sent(answer: LeaderAnswer) -> Mapping[str, Assignment]:
    return {member_id: decode_assignment(data) for member_id, data in answer.assignments.items()}


def record_of(answer: LeaderAnswer) -> ClassicRecord:
    assert answer.record is not None
    return answer.record


def test_everybody_is_sent_what_to_start_and_what_to_stop() -> None:
    answer = lead(call(member("w1", ALL), member("w2")))
    w1, w2 = sent(answer)["w1-1"], sent(answer)["w2-1"]
    assert (w1.leader, w1.leader_url, w1.config_offset, w1.version) == ("w1-1", "http://w1", 7, 1)
    assert len(w1.revoked) == 3
    assert (w1.assigned, w2.assigned, w2.revoked) == (frozenset(), frozenset(), frozenset())


def test_the_record_says_who_has_what_after_the_round() -> None:
    answer = lead(call(member("w1", ALL), member("w2")))
    record = record_of(answer)
    assert (record.epoch, record.generation, record.leader, record.leader_member) == (1, 1, "w1", "w1-1")
    assert record.members == {"w1": "w1-1", "w2": "w2-1"}
    assert record.assignment[W1] | record.revoked[W1] == tasks(ALL)
    assert not record.assignment[W1] & record.revoked[W1]
    assert {move.reason for move in record.moves} == {MoveReason.BALANCE}
    assert ClassicRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_rounds_in_a_row_that_change_nothing_are_counted_and_what_was_long_ago_is_not_in_the_row() -> None:
    members = (member("w1", ALL),)
    record = record_of(lead(call(*members)))
    for generation in (2, 3, 4):
        soon = call(*members, generation=generation, last=record, now_ms=record.at_ms + 5_000)
        record = record_of(lead(soon))
        assert record.unchanged == generation - 1
    later = call(*members, generation=5, last=record, now_ms=record.at_ms + 3_600_000)
    assert record_of(lead(later)).unchanged == 0
    newcomer = call(*members, member("w2"), generation=5, last=record)
    assert record_of(lead(newcomer)).unchanged == 0


def test_dynamic_members_go_by_their_member_ids() -> None:
    dynamic = replace(member("java", ALL), instance_id=None)
    record = record_of(lead(call(dynamic)))
    assert record.assignment == {"java-1": tasks(ALL)}


def test_a_leader_behind_on_the_jobs_topic_cannot_assign() -> None:
    answer = lead(call(member("w1", ""), member("w2", "a0", offset=9)))
    assert answer.record is None
    for assignment in sent(answer).values():
        assert assignment.error == AssignmentError.CONFIG_MISMATCH
        assert assignment.config_offset == 9
        assert not assignment.assigned | assignment.revoked


@pytest.mark.parametrize("claim", [10, 2**63 - 1])
def test_a_member_that_claims_more_than_the_jobs_topic_has_stops_nobody(claim: int) -> None:
    """No leader could ever read so far: the group would assign nothing any more."""
    answer = lead(call(member("w1", ""), member("w2", "", offset=claim), jobs_end=ConfigOffset(9)))
    behind = lead(call(member("w1", ""), member("w2", "", offset=9), jobs_end=ConfigOffset(9)))
    assert answer.unbelievable == {"w2": claim}
    assert {assignment.error for assignment in sent(answer).values()} == {AssignmentError.NONE}
    assert {assignment.config_offset for assignment in sent(answer).values()} == {7}
    assert record_of(answer).assignment[W1] | record_of(answer).assignment[W2] == tasks(ALL)
    assert (behind.unbelievable, behind.record) == ({}, None)


def test_a_leader_ahead_of_the_others_sends_its_own_offset() -> None:
    answer = lead(call(member("w1", ""), member("w2", "", offset=3)))
    assert sent(answer)["w2-1"].config_offset == 7


def test_metadata_that_nobody_can_read_get_an_empty_assignment_and_a_mention() -> None:
    broken = JoinedMember(member_id=MemberId("bad-1"), instance_id="bad", metadata=b"\x00")
    answer = lead(call(member("w1", ""), broken))
    assert answer.unreadable == ("bad",)
    assert sent(answer)["bad-1"].assigned == frozenset()
    assert sent(answer)["w1-1"].assigned == tasks(ALL)
    assert "bad" not in record_of(answer).assignment


# ---- the memory of the leader before


def two_workers(generation: int = 4) -> ClassicRecord:
    record = record_of(
        lead(call(member("w1", "a0 a1 a2"), member("w2", "b0 b1 b2"), generation=generation, leader=MemberId("w1-1")))
    )
    assert record.assignment == {"w1": tasks("a0 a1 a2"), "w2": tasks("b0 b1 b2")}
    return record


def test_a_new_leader_takes_over_the_memory_so_lost_work_waits() -> None:
    last = two_workers(4)
    for last_completed in (GenerationId(4), GenerationId(-1)):
        answer = lead(call(member("w2", "b0 b1 b2"), generation=5, last=last, last_completed=last_completed))
        assert sent(answer)["w2-1"].delay_ms == D
        assert record_of(answer).deadline_ms == NOW + D
        assert record_of(answer).assignment == {"w2": tasks("b0 b1 b2")}


def test_the_deadline_survives_the_next_leader_too() -> None:
    first = record_of(lead(call(member("w2", "b0 b1 b2"), generation=5, last=two_workers(4))))
    answer = lead(
        call(
            member("w3"),
            member("w2", "b0 b1 b2"),
            generation=6,
            last=first,
            last_completed=GenerationId(-1),
            now_ms=NOW + 100_000,
        )
    )
    assert sent(answer)["w3-1"].delay_ms == D - 100_000


def test_a_memory_that_rounds_lie_between_is_not_trusted() -> None:
    """Somebody led who wrote no record: what it assigned is not known."""
    answer = lead(call(member("w2", "b0 b1 b2"), generation=6, last=two_workers(4), last_completed=GenerationId(5)))
    assert sent(answer)["w2-1"].delay_ms == 0
    assert sent(answer)["w2-1"].assigned == tasks("a0 a1 a2")


def test_a_delay_that_runs_is_gone_on_with_over_rounds_that_failed() -> None:
    """A leader was lost between its JoinGroup and its SyncGroup, in the delay for another one."""
    waiting = record_of(lead(call(member("w1", "a0 a1 a2"), generation=5, last=two_workers(4))))
    assert waiting.deadline_ms == NOW + D
    late = call(
        member("w3"),
        member("w1", "a0 a1 a2"),
        generation=7,
        last=waiting,
        last_completed=GenerationId(-1),
        now_ms=NOW + 100_000,
    )
    answer = lead(late)
    assert {assignment.delay_ms for assignment in sent(answer).values()} == {D - 100_000}
    assert not any(assignment.assigned for assignment in sent(answer).values())
    over = lead(replace(late, now_ms=NOW + D))
    assert {assignment.delay_ms for assignment in sent(over).values()} == {0}


def test_a_leader_that_completed_the_recorded_round_itself_trusts_it_over_a_failed_one() -> None:
    """Between, a rebalance failed: its generation was counted, but it assigned nothing."""
    answer = lead(call(member("w2", "b0 b1 b2"), generation=6, last=two_workers(4), last_completed=GenerationId(4)))
    assert sent(answer)["w2-1"].delay_ms == D


# ---- epochs


@pytest.mark.parametrize(("generation", "epoch"), [(5, 5), (9, 9), (1, 5), (3, 7)])
def test_epochs_go_on_also_when_the_coordinator_counts_from_the_start_again(generation: int, epoch: int) -> None:
    last = two_workers(4)
    assert last.epoch == 4
    assert record_of(lead(call(member("w9"), generation=generation, last=last))).epoch == epoch


def test_a_new_count_begins_above_the_epochs_of_rounds_whose_record_was_never_written() -> None:
    """Its leader died before it wrote it, then the group was forgotten. Workers have spoken in that epoch already."""
    written = two_workers(4)
    unwritten = record_of(lead(call(member("w1"), generation=5, last=written)))
    first = lead(call(member("w9"), generation=1, last=written, spoken_epoch=unwritten.epoch))
    assert record_of(first).epoch == unwritten.epoch + 1


def test_a_round_that_is_computed_again_keeps_its_epoch() -> None:
    known = two_workers(4)
    again = call(member("w1"), generation=4, last=known, leader=known.leader_member, spoken_epoch=Epoch(known.epoch))
    assert record_of(lead(again)).epoch == known.epoch


def test_the_newer_of_two_records_is_that_of_the_higher_epoch() -> None:
    old, new = two_workers(4), two_workers(5)
    assert newer(old, new) is newer(new, old) is newer(new, None) is newer(None, new) is new
    assert newer(None, None) is None
    copy = replace(new)
    assert newer(new, copy) is new


# ---- eager


def eager(*names: str, generation: int, last: ClassicRecord | None = None) -> LeaderAnswer:
    members = [member(name, version=0) for name in names]
    return lead(call(*members, generation=generation, last=last, protocol=SubProtocol.DEFAULT))


def test_eager_deals_out_everything() -> None:
    answer = eager("w1", "w2", generation=1)
    assert [len(assignment.assigned) for assignment in sent(answer).values()] == [3, 3]
    assert {assignment.version for assignment in sent(answer).values()} == {0}
    assert {move.reason for move in record_of(answer).moves} == {MoveReason.EAGER}


def test_the_first_eager_round_after_a_cooperative_one_deals_out_nothing() -> None:
    """The members joined it with their tasks running: what one gets another may not have stopped."""
    first = eager("w1", "w2", generation=5, last=two_workers(4))
    assert not any(assignment.assigned for assignment in sent(first).values())
    second = eager("w1", "w2", generation=6, last=record_of(first))
    assert frozenset().union(*(assignment.assigned for assignment in sent(second).values())) == tasks(ALL)


def test_an_eager_round_deals_out_nothing_unless_the_round_before_is_known_to_have_been_eager() -> None:
    """The record of a cooperative one may be lost, or on its way; then its members have joined with tasks running."""
    eager: dict[str, Any] = {"protocol": SubProtocol.DEFAULT}
    members = (member("w1", version=0), member("w2", version=0))
    first = lead(call(*members, **eager)).record
    assert first is not None
    assert any(first.assignment.values()), "there was none before it"
    following = lead(call(*members, generation=2, last=first, **eager)).record
    assert following is not None
    assert following.assignment == first.assignment
    for last in (None, first):
        uncertain = lead(call(*members, generation=3, last=last, **eager)).record
        assert uncertain is not None
        assert not any(uncertain.assignment.values())
        assert uncertain.generation == 3
        again = lead(call(*members, generation=4, last=uncertain, **eager)).record
        assert again is not None
        assert again.assignment == first.assignment


def test_the_first_eager_round_names_to_java_workers_what_they_have() -> None:
    """They stop only what their last assignment names (KAFKA-13816). The next round deals out everything."""
    java = replace(member("java", ""), instance_id=None, member_id=MemberId("java"))
    before = record_of(lead(call(member("w1", ""), java, generation=4)))
    members = (member("w1", version=0), java)

    first = lead(call(*members, generation=5, last=before, protocol=SubProtocol.DEFAULT))

    assert {name: assignment.assigned for name, assignment in sent(first).items()} == {
        "w1-1": frozenset(),
        "java": before.assignment[WorkerId("java")],
    }
    assert before.assignment[WorkerId("java")]
    assert not any(record_of(first).assignment.values()), "the leader's watch finds everything unassigned"
    second = lead(call(*members, generation=6, last=record_of(first), protocol=SubProtocol.DEFAULT))
    assert frozenset().union(*(assignment.assigned for assignment in sent(second).values())) == tasks(ALL)


def test_the_first_eager_round_names_nothing_that_others_may_have_moved_since() -> None:
    java = replace(member("java", ""), instance_id=None, member_id=MemberId("java"))
    before = record_of(lead(call(member("w1", ""), java, generation=4)))
    members = (member("w1", version=0), java)

    late = call(*members, generation=7, last=before, protocol=SubProtocol.DEFAULT, last_completed=GenerationId(6))

    assert not any(assignment.assigned for assignment in sent(lead(late)).values())


def test_after_an_eager_round_nothing_is_lost_even_if_a_worker_is_missing() -> None:
    """An upgrade: everybody stopped everything before it joined. Nothing may wait for the worker that went away."""
    last = record_of(eager("w1", "w2", "w3", generation=1))
    answer = lead(call(member("w1", ""), member("w2", ""), generation=2, last=last))
    assert {assignment.delay_ms for assignment in sent(answer).values()} == {0}
    assert frozenset().union(*(assignment.assigned for assignment in sent(answer).values())) == tasks(ALL)


def test_a_task_that_has_ended_costs_no_round_though_its_member_still_reports_it() -> None:
    first = record_of(lead(call(member("w1", "a0 a1 a2"), configured=tasks("a0 a1 a2"))))
    again = call(member("w1", "a0 a1 a2"), generation=2, last=first, configured=tasks("a1 a2"), ended=tasks("a0"))

    answer = lead(again)

    assert not sent(answer)["w1-1"].revoked
    assert record_of(answer).assignment == {"w1": tasks("a1 a2")}
