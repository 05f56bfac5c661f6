"""The steps of a heartbeat, in the order of the proposal; and what it does to the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinated import COOPERATIVE, GROUP, W1, W2, W3, Shard, assigned, heartbeat, tasks, whole

from airflow_provider.group.declarative.protocol.model import MemberState
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import InstalledMember
from airflow_provider.group.declarative.protocol.wire.record_values import (
    ConnectWorkerGroupConnectorsTasksMetadataKey,
    ConnectWorkerGroupCurrentMemberAssignmentKey,
    ConnectWorkerGroupMemberMetadataKey,
    ConnectWorkerGroupMetadataKey,
)
from airflow_provider.group.declarative.protocol.wire.records import decode_record
from airflow_provider.group.declarative.report import to_json
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code
from airflow_provider.values.model import NO_TASKS, MemberId

ALL = tasks("AC0", "AT1", "AT2", "BC0", "BT1")
OF_A = tasks("AC0", "AT1", "AT2")
OF_B = tasks("BC0", "BT1")


def one_member() -> Shard:
    """W1 has all, in epoch 1."""
    shard = Shard()
    shard.read_jobs(ALL)
    shard.join(W1)
    shard.compute(W1, {W1: ALL})
    shard.heartbeat(W1, 0)
    return shard


def two_members() -> Shard:
    """W1 has the tasks of A and W2 those of B, in epoch 2."""
    shard = one_member()
    shard.join(W2)
    shard.heartbeat(W1, 1)  # it is chosen
    shard.compute(W1, {W1: OF_A, W2: OF_B})
    shard.heartbeat(W1, 1)
    shard.heartbeat(W1, 1, OF_A)
    shard.heartbeat(W2, 1)
    return shard


class TestTheGroup:
    def test_it_is_made_by_its_first_member(self) -> None:
        shard = Shard()
        assert GROUP not in shard.coordinator.groups
        shard.join(W1)
        assert shard.group.epoch == 1

    def test_a_member_that_is_refused_makes_none(self) -> None:
        shard = Shard()
        assert shard.heartbeat(W1, 4).error_code == Code.UNKNOWN_MEMBER_ID
        assert not shard.coordinator.groups
        assert not shard.coordinator._desks  # nothing that grows with what is asked in vain
        assert not shard.log


class TestTheMember:
    def test_it_joins(self) -> None:
        shard = Shard()
        reply = shard.join(W1)
        assert (reply.member_epoch, reply.heartbeat_interval_ms, reply.session_timeout_ms) == (0, 3_000, 10_000)
        assert shard.group.members[W1].client_id == "c"
        assert shard.group.current[W1].assigned == NO_TASKS

    @pytest.mark.parametrize("owned", [None, OF_A])
    def test_who_is_not_known_owns_nothing(self, owned: Any) -> None:
        reply = Shard().heartbeat(W1, 0, owned, **whole())
        assert reply.error_code == Code.UNKNOWN_MEMBER_ID

    def test_one_that_is_not_known(self) -> None:
        shard = one_member()
        assert shard.heartbeat(W2, 1).error_code == Code.UNKNOWN_MEMBER_ID
        assert shard.group.epoch == 1


class TestItsEpoch:
    @pytest.mark.parametrize("epoch", [1, 3])
    def test_another_one_is_fenced_and_the_member_removed(self, epoch: int) -> None:
        shard = two_members()
        reply = shard.heartbeat(W2, epoch)
        assert reply.error_code == Code.FENCED_MEMBER_EPOCH
        assert list(shard.group.members) == [W1]
        assert shard.group.epoch == 3

    def test_what_it_may_still_run_is_held_until_its_session_would_have_ended(self) -> None:
        shard = two_members()
        shard.sleep(4_000)
        shard.heartbeat(W1, 2, **whole())
        shard.heartbeat(W2, 1)
        shard.compute(W1, {W1: ALL})
        assert assigned(shard.heartbeat(W1, 2, OF_A, **whole())) == OF_A
        shard.sleep(5_999)
        held = shard.held(W1, 2)
        shard.sleep(1)
        assert assigned(shard.reply_to(held)) == ALL

    def test_it_joins_again_owning_nothing_and_has_what_the_target_still_gives_it(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, 1)
        assert shard.group.lingering == {W2}
        assert assigned(shard.join(W2)) == OF_B
        assert not shard.group.lingering
        assert shard.group.epoch == 4

    @pytest.mark.parametrize("owned", [NO_TASKS, tasks("BT1"), OF_B])
    def test_an_answer_was_lost(self, owned: Any) -> None:
        """It is in epoch 2 and does not know it: what it owns is part of what it has."""
        shard = two_members()
        reply = shard.heartbeat(W2, 1, owned, **whole())
        assert (reply.error_code, reply.member_epoch, assigned(reply)) == (Code.NONE, 2, OF_B)
        assert not shard.written

    def test_two_answers_were_lost_and_it_has_to_stop_something(self) -> None:
        """It owns what it was last known to have, also what the second answer had it stop."""
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)  # it is chosen
        shard.compute(W1, {W1: OF_A, W2: tasks("BC0"), W3: tasks("BT1")})
        replies = [shard.heartbeat(W2, 1, OF_B, **whole()) for _ in range(2)]
        assert [(reply.error_code, assigned(reply)) for reply in replies] == [(Code.NONE, tasks("BC0"))] * 2

    @pytest.mark.parametrize("owned", [tasks("AT1"), tasks("BT1", "CT1"), None])
    def test_it_owns_what_it_has_not(self, owned: Any) -> None:
        assert two_members().heartbeat(W2, 1, owned, **whole()).error_code == Code.FENCED_MEMBER_EPOCH

    def test_it_joins_anew_though_it_is_known(self) -> None:
        """It was fenced by itself, perhaps: it has stopped everything, and is sent what it has."""
        shard = two_members()
        reply = shard.join(W2)
        assert (reply.member_epoch, assigned(reply)) == (2, OF_B)
        assert shard.group.epoch == 2


class TestWhatItSays:
    @pytest.mark.parametrize(
        "other",
        [
            {"name": "eager"},
            {"reason": 1},
            {"metadata": b"1"},
            {"version": 2},
            {"minimum_version": 1},
            {"maximum_version": 3},
        ],
    )
    def test_another_assignor_reason_or_metadata_is_a_new_epoch(self, other: dict[str, Any]) -> None:
        shard = one_member()
        shard.heartbeat(W1, 1, client_assignors=(replace(COOPERATIVE, **other),))
        assert shard.group.epoch == 2
        kinds = [type(record.key) for record in shard.written]
        assert kinds == [ConnectWorkerGroupMemberMetadataKey, ConnectWorkerGroupMetadataKey]

    def test_what_it_leaves_out_has_not_changed(self) -> None:
        shard = one_member()
        member = shard.group.members[W1]
        shard.held(W1, 1)
        assert shard.group.members[W1] is member

    def test_the_same_again_writes_nothing(self) -> None:
        shard = one_member()
        shard.heartbeat(W1, 1, ALL, **whole())
        assert not shard.written

    def test_another_rebalance_timeout_is_recorded_and_no_new_epoch(self) -> None:
        shard = one_member()
        shard.heartbeat(W1, 1, ALL, **whole(rebalance_timeout_ms=5))
        assert [type(record.key) for record in shard.written] == [ConnectWorkerGroupMemberMetadataKey]
        assert shard.group.epoch == 1
        assert shard.group.members[W1].rebalance_timeout_ms == 5


class TestReasonsForAnEpoch:
    """The proposal's six: the second and the third are in the class before."""

    def test_a_worker_joins(self) -> None:
        shard = one_member()
        shard.join(W2)
        assert shard.group.epoch == 2

    def test_a_worker_leaves(self) -> None:
        shard = two_members()
        assert shard.leave(W2).member_epoch == -1
        assert shard.group.epoch == 3

    def test_a_worker_is_removed(self) -> None:
        shard = two_members()
        shard.sleep(9_000)
        shard.heartbeat(W1, 2, **whole())
        shard.sleep(1_000)
        assert list(shard.group.members) == [W1]
        assert shard.group.epoch == 3

    @pytest.mark.parametrize("configured", [ALL | tasks("CC0"), ALL | tasks("AT3"), OF_A, NO_TASKS])
    def test_jobs_or_tasks_are_added_or_removed(self, configured: Any) -> None:
        shard = one_member()
        shard.read_jobs(configured)
        assert shard.group.epoch == 2
        assert shard.group.configured == configured

    def test_the_same_jobs_are_none(self) -> None:
        shard = one_member()
        shard.read_jobs(ALL)
        assert not shard.written

    def test_nor_are_jobs_of_a_group_that_nobody_is_in(self) -> None:
        shard = Shard()
        shard.read_jobs(ALL)
        assert not shard.written
        shard.join(W1)
        assert (shard.group.epoch, shard.group.configured) == (1, ALL)


class TestReconciliation:
    def test_it_stops_and_then_the_other_one_starts(self) -> None:
        shard = one_member()
        assert assigned(shard.join(W2)) == NO_TASKS
        shard.heartbeat(W1, 1)
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        revoked = shard.heartbeat(W1, 1)
        assert (revoked.member_epoch, assigned(revoked)) == (1, OF_A)
        held = shard.held(W2, 1)
        assert shard.group.current[W2].state is MemberState.UNRELEASED
        stopped = shard.heartbeat(W1, 1, OF_A)
        assert (stopped.member_epoch, assigned(stopped)) == (2, OF_A)
        got = shard.reply_to(held)
        assert (got.member_epoch, assigned(got)) == (2, OF_B)

    def test_one_that_takes_30_s_to_stop_holds_up_no_other_move(self) -> None:
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: tasks("AC0", "AT1"), W2: tasks("BC0"), W3: tasks("AT2", "BT1")})
        assert assigned(shard.heartbeat(W1, 2)) == assigned(shard.heartbeat(W1, 2, OF_A, **whole()))
        shard.heartbeat(W2, 2)
        waits = shard.held(W3, 2)
        shard.heartbeat(W2, 2, tasks("BC0"))
        assert assigned(shard.reply_to(waits)) == tasks("BT1"), "with the word that it was stopped"
        for _ in range(10):
            shard.sleep(3_000)
            for member, epoch, owned in ((W1, 2, OF_A), (W2, 3, tasks("BC0")), (W3, 2, tasks("BT1"))):
                shard.ask(heartbeat(member, epoch, owned))
        shard.read_jobs(ALL | tasks("BT2"))
        shard.compute(W1, {W1: tasks("AC0", "AT1"), W2: tasks("BC0", "BT2"), W3: tasks("AT2", "BT1")})
        assert shard.group.current[W2].assigned == tasks("BC0", "BT2"), "that has nothing to do with it"
        assert shard.group.current[W1].state is MemberState.UNREVOKED
        shard.ask(heartbeat(W1, 2, tasks("AC0", "AT1")))
        assert shard.group.current[W3].assigned == tasks("AT2", "BT1")

    def test_what_is_kept_while_something_stops_is_of_the_target_that_it_was_assigned_from(self) -> None:
        """In the epoch of the new target it may be another member's, which may be the later one to write."""
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: tasks("AC0", "AT1"), W2: OF_B, W3: tasks("AT2")})
        stops = shard.heartbeat(W1, 2)
        waits = shard.join(W3)
        shard.fail_over()
        again = shard.heartbeat(W1, 2, OF_A, **whole())
        kept = shard.heartbeat(W1, 2, tasks("AC0", "AT1"))
        gets = shard.join(W3)
        answers = (stops, again, kept, waits, gets)
        assert [one.assignment.assignment_epoch for one in answers if one.assignment] == [2, 2, 3, 3, 3]

    def test_an_assignment_is_sent_while_the_epoch_is_below_the_targets(self) -> None:
        shard = two_members()
        assert assigned(shard.heartbeat(W1, 2, OF_A, **whole())) is None
        assert assigned(shard.heartbeat(W1, 1, OF_A, **whole())) == OF_A

    def test_x_plus_2_records_for_x_members(self) -> None:
        """Of the group's metadata; the target is one more, and the current assignment one for each member."""
        shard = Shard()
        shard.read_jobs(ALL)
        for number in range(7):
            shard.join(MemberId(f"w{number}"))
        about_current = bytes((0, 7))
        assert len({key for key, _ in shard.log if not key.startswith(about_current)}) == 7 + 2

    def test_the_groups_record_is_the_last_one(self) -> None:
        shard = Shard()
        shard.read_jobs(ALL)
        shard.join(W1)
        assert [type(record.key) for record in shard.written] == [
            ConnectWorkerGroupMemberMetadataKey,
            ConnectWorkerGroupCurrentMemberAssignmentKey,
            ConnectWorkerGroupConnectorsTasksMetadataKey,
            ConnectWorkerGroupMetadataKey,
        ]

    def test_a_heartbeat_that_changes_nothing_writes_nothing(self) -> None:
        shard = two_members()
        for owned in (None, OF_A):
            shard.held(W1, 2, owned)
            assert not shard.written


class TestLongPoll:
    def test_it_is_answered_after_the_interval(self) -> None:
        shard = one_member()
        held = shard.held(W1, 1)
        shard.sleep(2_999)
        assert held not in shard.answers
        shard.sleep(1)
        reply = shard.reply_to(held)
        assert (reply.error_code, reply.member_epoch, assigned(reply)) == (Code.NONE, 1, None)

    def test_one_of_a_member_at_most(self) -> None:
        shard = one_member()
        first = shard.held(W1, 1)
        second = shard.held(W1, 1)
        assert shard.reply_to(first).member_epoch == 1
        shard.sleep(3_000)
        assert shard.reply_to(second).member_epoch == 1

    def test_it_is_answered_when_a_target_is_installed(self) -> None:
        shard = two_members()
        held = shard.held(W2, 2)
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: OF_A, W3: OF_B})
        assert assigned(shard.reply_to(held)) == NO_TASKS
        assert shard.group.current[W2].state is MemberState.UNREVOKED

    def test_what_several_release_together_is_one_answer(self) -> None:
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: tasks("AC0", "AT1"), W2: tasks("BC0"), W3: tasks("AT2", "BT1")})
        shard.heartbeat(W1, 2)
        shard.heartbeat(W2, 2)
        waits = shard.held(W3, 2)
        shard.ask_together(heartbeat(W1, 2, tasks("AC0", "AT1")), heartbeat(W2, 2, tasks("BC0")))
        got = shard.reply_to(waits)
        assert (got.member_epoch, assigned(got)) == (3, tasks("AT2", "BT1"))

    def test_what_was_said_to_one_that_is_given_up_is_said_again(self) -> None:
        """The next one has come together with what there is to say to it."""
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: tasks("AC0", "AT1"), W2: OF_B, W3: tasks("AT2")})
        shard.heartbeat(W1, 2)
        given_up = shard.held(W3, 2)
        _, last = shard.ask_together(heartbeat(W1, 2, tasks("AC0", "AT1")), heartbeat(W3, 2))
        answers = [assigned(shard.reply_to(number)) for number in (given_up, last)]
        assert answers == [tasks("AT2")] * 2

    def test_a_whole_one_is_answered_immediately(self) -> None:
        assert two_members().heartbeat(W1, 2, OF_A, **whole()).error_code == Code.NONE

    def test_who_leaves_has_it_answered(self) -> None:
        shard = two_members()
        held = shard.held(W2, 2)
        shard.leave(W2)
        assert shard.reply_to(held).error_code == Code.UNKNOWN_MEMBER_ID


class TestLeaving:
    def test_what_it_had_is_free(self) -> None:
        shard = two_members()
        shard.leave(W2)
        assert set(shard.group.holders) == OF_A
        assert [one["member"] for one in to_json(shard.group)["members"]] == [W1]
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: ALL})
        tombstones = [type(decode_record(*one).key) for one in shard.log if one[1] is None]
        assert tombstones == [ConnectWorkerGroupMemberMetadataKey, ConnectWorkerGroupCurrentMemberAssignmentKey]

    def test_the_last_one_leaves_the_epochs(self) -> None:
        """Kafka, too, keeps an empty group, and deletes it later; then its epochs would begin anew."""
        shard = one_member()
        shard.leave(W1)
        group = shard.group
        assert (group.epoch, group.target.epoch, dict(group.target.members)) == (2, 1, {})
        shard.join(W2)
        assert shard.group.epoch == 3

    @pytest.mark.parametrize("fails_over", [False, True])
    def test_what_it_says_last_the_next_assignor_gets(self, fails_over: bool) -> None:
        shard = two_members()
        shard.heartbeat(W2, -1, client_assignors=(replace(COOPERATIVE, metadata=b"for good"),))
        if fails_over:
            shard.fail_over()
        shard.heartbeat(W1, 2, **whole())
        (gone,) = shard.prepare(W1, 2).departed
        assert (gone.member_id, gone.assignor.metadata) == (W2, b"for good")

    def test_that_is_kept_until_no_task_waits_for_it(self) -> None:
        shard = two_members()
        shard.leave(W2)
        shard.heartbeat(W1, 2)
        delayed = (InstalledMember(member_id=W2, connectors_and_tasks=units_of(OF_B)),)
        assert shard.install(W1, 2, shard.prepare(W1, 2).group_epoch, {W1: OF_A}, delayed=delayed).error_code == 0
        shard.fail_over()
        assert set(shard.group.last_said) == {W2}
        shard.heartbeat(W1, 2)
        shard.read_jobs(OF_A)
        shard.heartbeat(W1, 3)
        shard.compute(W1, {W1: OF_A})
        assert not shard.group.last_said

    def test_one_that_is_back_is_what_it_says_now(self) -> None:
        shard = two_members()
        shard.leave(W2)
        assert set(shard.group.last_said) == {W2}
        shard.join(W2)
        assert not shard.group.last_said

    def test_one_that_was_removed_has_said_it_too_and_what_it_may_run_is_held(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, 1)
        assert set(shard.group.last_said) == shard.group.lingering == {W2}
        shard.leave(W2)
        assert set(shard.group.last_said) == {W2}
        assert not shard.group.lingering
