"""Who computes a group's target, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinated import COOPERATIVE, W1, W2, W3, Shard, assigned, keep_alive, tasks, whole
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.units import units_of as units
from airflow_provider.group.declarative.protocol.wire.messages.bodies import InstalledMember
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code
from airflow_provider.values.model import NO_TASKS

ALL = tasks("AC0", "AT1", "BC0", "BT1")
OF_A, OF_B = tasks("AC0", "AT1"), tasks("BC0", "BT1")


def two_members() -> Shard:
    """Both in epoch 1, with nothing to do; W1 has computed that, and is about to compute the next."""
    shard = Shard()
    shard.join(W1)
    shard.compute(W1, {})
    shard.heartbeat(W1, 0)
    shard.read_jobs(ALL)
    shard.join(W2)
    return shard


class TestWhoIsChosen:
    def test_it_is_said_with_whatever_else_there_is(self) -> None:
        reply = Shard().join(W1)
        assert reply.error_code == Code.COMPUTE_ASSIGNMENT
        assert (reply.heartbeat_interval_ms, reply.session_timeout_ms) == (3_000, 10_000)

    def test_it_is_said_to_a_heartbeat_that_is_held(self) -> None:
        shard = Shard()
        shard.join(W1)
        shard.compute(W1, {})
        shard.heartbeat(W1, 0)
        held = shard.held(W1, 1)
        shard.read_jobs(ALL)
        assert shard.reply_to(held).error_code == Code.COMPUTE_ASSIGNMENT

    def test_it_is_said_until_there_is_a_target_and_does_not_keep_from_waiting(self) -> None:
        shard = two_members()
        assert shard.heartbeat(W1, 1).error_code == Code.COMPUTE_ASSIGNMENT
        held = shard.held(W1, 1)
        shard.sleep(3_000)
        assert shard.reply_to(held).error_code == Code.COMPUTE_ASSIGNMENT
        shard.compute(W1, {W1: ALL})
        assert shard.heartbeat(W1, 1).error_code == Code.NONE

    def test_it_is_said_to_nobody_else(self) -> None:
        assert two_members().heartbeat(W2, 1, (), **whole()).error_code == Code.NONE

    def test_who_is_too_slow_is_replaced(self) -> None:
        shard = two_members()
        shard.heartbeat(W1, 1)
        for _ in range(12):
            shard.sleep(5_000)
            shard.heartbeat(W1, 1, (), **whole())
            last = shard.heartbeat(W2, 1, (), **whole())
        assert last.error_code == Code.COMPUTE_ASSIGNMENT
        assert shard.prepare(W1, 1).error_code == Code.UNKNOWN_MEMBER_ID
        shard.compute(W2, {W1: OF_A, W2: OF_B})

    def test_who_leaves_is_replaced(self) -> None:
        shard = two_members()
        shard.leave(W1)
        assert shard.heartbeat(W2, 1).error_code == Code.COMPUTE_ASSIGNMENT

    def test_the_group_moves_on_meanwhile(self) -> None:
        """What was prepared is installed, of that epoch, and the next one computed."""
        shard = two_members()
        prepared = shard.prepare(W1, 1)
        shard.join(W3)
        shard.leave(W2)
        assert shard.install(W1, 1, prepared.group_epoch, {W1: OF_A, W2: OF_B}).error_code == Code.NONE
        assert (shard.group.target.epoch, shard.group.epoch) == (3, 5)
        assert shard.heartbeat(W1, 1).error_code == Code.COMPUTE_ASSIGNMENT


@pytest.mark.parametrize("kind", ["prepare", "install"])
class TestTheirSteps:
    def ask(self, shard: Shard, kind: str, member: Any, epoch: int) -> int:
        if kind == "prepare":
            return shard.prepare(member, epoch).error_code
        return shard.install(member, epoch, 3, {W1: ALL}).error_code

    def test_there_is_no_group(self, kind: str) -> None:
        assert self.ask(Shard(), kind, W1, 0) == Code.GROUP_ID_NOT_FOUND

    def test_there_is_no_such_member(self, kind: str) -> None:
        assert self.ask(two_members(), kind, W3, 7) == Code.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("epoch", [0, 2])
    def test_it_is_in_another_epoch(self, kind: str, epoch: int) -> None:
        shard = two_members()
        assert self.ask(shard, kind, W2, epoch) == Code.FENCED_MEMBER_EPOCH
        assert W2 in shard.group.members, "only a heartbeat removes it"

    def test_it_is_not_chosen(self, kind: str) -> None:
        assert self.ask(two_members(), kind, W2, 1) == Code.UNKNOWN_MEMBER_ID

    def test_it_is(self, kind: str) -> None:
        shard = two_members()
        shard.prepare(W1, 1)
        assert self.ask(shard, kind, W1, 1) == Code.NONE

    def test_they_are_no_heartbeats(self, kind: str) -> None:
        """As in Kafka, where only a heartbeat prolongs a session."""
        shard = two_members()
        shard.sleep(9_999)
        shard.prepare(W1, 1)
        self.ask(shard, kind, W1, 1)
        shard.sleep(1)
        assert W1 not in shard.group.members


class TestPrepare:
    def test_the_groups_state(self) -> None:
        shard = two_members()
        shard.configure(scheduled_rebalance_max_delay_ms=7)
        reply = shard.prepare(W1, 1)
        assert (reply.group_epoch, reply.assignor_name) == (3, "cooperative")
        assert [(one.member_id, one.member_epoch) for one in reply.members] == [(W1, 1), (W2, 1)]
        assert tasks_of(reply.connectors_tasks) == ALL
        assert reply.scheduled_rebalance_max_delay_ms == 7


class TestInstall:
    @pytest.mark.parametrize(
        "shares",
        [
            {W1: OF_A},
            {W1: ALL, W2: OF_B},
            {W1: ALL | tasks("CC0")},
            {W1: OF_A, W3: OF_B},
        ],
        ids=["one is missing", "one twice", "one is not configured", "a worker is not there"],
    )
    def test_it_is_validated(self, shares: Any) -> None:
        shard = two_members()
        shard.prepare(W1, 1)
        before = shard.group.target
        reply = shard.install(W1, 1, 3, shares)
        assert reply.error_code == Code.INVALID_ASSIGNMENT
        assert reply.error_message
        assert shard.group.target == before

    def test_then_another_member_tries(self) -> None:
        shard = two_members()
        held = shard.held(W2, 1)
        shard.prepare(W1, 1)
        shard.install(W1, 1, 3, {})
        assert shard.reply_to(held).error_code == Code.COMPUTE_ASSIGNMENT

    def test_the_only_one_may_try_again(self) -> None:
        shard = Shard()
        shard.read_jobs(ALL)
        shard.join(W1)
        shard.prepare(W1, 0)
        assert shard.install(W1, 0, 1, {}).error_code == Code.INVALID_ASSIGNMENT
        held = shard.held(W1, 0)
        shard.compute(W1, {W1: ALL})
        assert assigned(shard.reply_to(held)) == ALL

    def test_who_has_nothing_prepared_asks_again_and_nobody_is_passed_over(self) -> None:
        shard = two_members()
        shard.prepare(W1, 1)
        shard.fail_over()
        held = shard.held(W2, 1)
        assert shard.install(W1, 1, 3, {W1: ALL}).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        assert shard.heartbeat(W1, 1).error_code == Code.COMPUTE_ASSIGNMENT
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        assert assigned(shard.reply_to(held)) == OF_B

    def test_what_waits_for_a_lost_member_is_delayed(self) -> None:
        shard = two_members()
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.leave(W2)
        shard.heartbeat(W1, 1)
        shard.prepare(W1, 3)
        delayed = (InstalledMember(member_id=W2, connectors_and_tasks=units(OF_B)),)
        assert shard.install(W1, 3, 4, {W1: OF_A}, delayed=delayed).error_code == Code.NONE
        assert shard.group.target.delayed[W2].tasks == OF_B

    def test_an_assignor_that_fails_leaves_all_as_it_was(self) -> None:
        shard = two_members()
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        before = shard.group.target.members
        shard.join(W3)
        shard.heartbeat(W1, 1)
        shard.prepare(W1, 3)
        shard.install(W1, 3, 4, {}, error=9)
        assert (shard.group.target.epoch, shard.group.target.error) == (4, 9)
        assert shard.group.target.members == before
        reply = shard.heartbeat(W1, 3)
        assert reply.assignment is not None
        assert (reply.member_epoch, reply.assignment.error, assigned(reply)) == (4, 9, OF_A)

    @pytest.mark.parametrize("takes_over", [False, True])
    def test_one_that_has_failed_is_followed_by_another_try(self, takes_over: bool) -> None:
        """Of another member: this one would fail again. Who was to end a delay may be gone, and nobody else would."""
        shard = two_members()
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.join(W3)
        shard.heartbeat(W1, 1)
        shard.prepare(W1, 3)
        shard.install(W1, 3, 4, {}, error=9)
        if takes_over:
            shard.fail_over()
        keep_alive(shard, W1, W2, W3, ms=59_000)
        assert (shard.group.epoch, shard.group.target.epoch) == (4, 4)
        keep_alive(shard, W1, W2, W3, ms=1_000)
        assert (shard.group.epoch, shard.group.target.epoch) == (5, 4)
        if not takes_over:  # the next coordinator does not know who has failed
            shard.compute(W2, {W1: OF_A, W2: OF_B, W3: NO_TASKS})
            assert (shard.group.target.epoch, shard.group.target.error) == (5, 0)
            keep_alive(shard, W1, W2, W3, ms=90_000)
            assert shard.group.epoch == 5

    def test_a_group_that_has_moved_on_since_an_assignor_has_failed_does_not_move_on_for_that(self) -> None:
        shard = two_members()
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.join(W3)
        shard.heartbeat(W1, 1)
        shard.prepare(W1, 3)
        shard.install(W1, 3, 4, {}, error=9)
        keep_alive(shard, W1, W2, W3, ms=30_000)
        shard.leave(W3)
        keep_alive(shard, W1, W2, ms=40_000)
        assert shard.group.epoch == 5


class TestNobodyFits:
    def test_it_is_said_why_and_the_target_stays(self) -> None:
        """Both overlap, and none reads the other's versions."""
        shard = Shard()
        shard.join(W1, client_assignors=(replace(COOPERATIVE, maximum_version=2),))
        shard.compute(W1, {})
        shard.heartbeat(W1, 0)
        shard.join(W2, client_assignors=(replace(COOPERATIVE, minimum_version=1, maximum_version=5),))
        assert "0 to 5" in str(shard.coordinator._desks["g"].stuck)
        assert shard.group.target.epoch == 1
        shard.leave(W2)
        assert shard.coordinator._desks["g"].stuck is None
        assert shard.heartbeat(W1, 1).error_code == Code.COMPUTE_ASSIGNMENT


class TestUnits:
    @pytest.mark.slow
    @given(st.frozensets(st.sampled_from(sorted(ALL))))
    def test_there_and_back(self, some: Any) -> None:
        assert tasks_of(units(some)) == some
        assert tasks_of((*units(some), *units(some))) == some

    def test_nothing(self) -> None:
        assert units(NO_TASKS) == ()
