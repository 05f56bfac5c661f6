"""Sessions, revocations that take too long, static members, and what another coordinator makes of the records."""

from __future__ import annotations

from typing import Any

import pytest
from coordinated import W1, W2, W3, Shard, assigned, keep_alive, tasks, whole

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, GroupConfiguration
from airflow_provider.group.declarative.coordinator.timers import Kind, Timer, Timers
from airflow_provider.group.declarative.protocol.model import MemberState
from airflow_provider.group.declarative.protocol.wire.record_values import ConnectWorkerGroupConfigurationKey
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code
from airflow_provider.values.model import NO_TASKS, MemberId

ALL = tasks("AC0", "AT1", "BC0", "BT1")
OF_A, OF_B = tasks("AC0", "AT1"), tasks("BC0", "BT1")
STATIC: dict[str, Any] = {"instance_id": "worker-2"}
SUCCESSOR = MemberId("W2'")


def two_members() -> Shard:
    """W1 has the tasks of A and W2, which is static, those of B."""
    shard = Shard()
    shard.read_jobs(ALL)
    shard.join(W1)
    shard.join(W2, **STATIC)
    shard.compute(W1, {W1: OF_A, W2: OF_B})
    shard.heartbeat(W1, 0)
    shard.heartbeat(W2, 0)
    return shard


class TestSession:
    def test_it_ends_when_nothing_is_heard(self) -> None:
        shard = two_members()
        keep_alive(shard, W1, ms=9_000)
        shard.sleep(999)
        assert W2 in shard.group.members
        shard.sleep(1)
        assert W2 not in shard.group.members
        assert set(shard.group.holders) == OF_A

    def test_each_heartbeat_begins_it_anew(self) -> None:
        shard = two_members()
        keep_alive(shard, W1, W2, ms=25_000)
        assert set(shard.group.members) == {W1, W2}

    def test_one_that_is_refused_does_not(self) -> None:
        shard = two_members()
        shard.sleep(9_999)
        assert shard.heartbeat(W2, 2, rebalance_timeout_ms=0).error_code == Code.INVALID_REQUEST
        shard.sleep(1)
        assert not shard.group.members

    def test_it_is_as_long_as_the_answer_says(self) -> None:
        """The longer one is set while the heartbeat is held; the member hears of it with the answer."""
        shard = two_members()
        held = shard.held(W1, 2)
        shard.configure(session_timeout_ms=30_000)
        shard.sleep(3_000)
        assert shard.reply_to(held).session_timeout_ms == 30_000
        shard.sleep(26_999)
        assert list(shard.group.members) == [W1]
        shard.sleep(1)
        assert not shard.group.members

    def test_a_shorter_one_does_not_cut_short_what_was_granted(self) -> None:
        """The answer that tells W2 of it is lost, and so are all the heartbeats after that."""
        shard = two_members()
        shard.configure(session_timeout_ms=60_000)
        assert shard.heartbeat(W2, 2, **whole()).session_timeout_ms == 60_000
        shard.configure(session_timeout_ms=5_000)
        shard.sleep(1_000)
        assert shard.heartbeat(W2, 2, **whole()).session_timeout_ms == 5_000
        shard.sleep(58_999)
        assert set(shard.group.holders) == OF_B
        shard.sleep(1)
        assert not shard.group.holders

    def test_a_shorter_one_holds_when_what_was_granted_is_over(self) -> None:
        shard = two_members()
        shard.configure(session_timeout_ms=5_000)
        keep_alive(shard, W1, W2, ms=10_000)
        shard.sleep(4_999)
        assert W2 in shard.group.members
        shard.sleep(1)
        assert W2 not in shard.group.members


class TestRebalanceTimeout:
    def revoking(self) -> Shard:
        shard = two_members()
        shard.read_jobs(OF_A)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: OF_A})
        shard.heartbeat(W2, 2)
        return shard

    def test_who_does_not_stop_in_time_is_removed_and_what_it_runs_is_held(self) -> None:
        shard = self.revoking()
        assert shard.group.current[W2].state is MemberState.UNREVOKED
        keep_alive(shard, W1, W2, ms=59_000)
        assert W2 in shard.group.members
        shard.sleep(1_000)
        assert W2 not in shard.group.members
        assert shard.group.lingering == {W2}
        keep_alive(shard, W1, ms=9_000)
        assert not shard.group.lingering

    def test_who_stops_stays(self) -> None:
        shard = self.revoking()
        keep_alive(shard, W1, W2, ms=59_000)
        shard.heartbeat(W2, 2, NO_TASKS)
        keep_alive(shard, W1, W2, ms=30_000)
        assert set(shard.group.members) == {W1, W2}


class TestStaticMember:
    def test_it_leaves_for_a_while_and_is_back(self) -> None:
        shard = two_members()
        assert shard.heartbeat(W2, -2, **STATIC).member_epoch == -2
        assert set(shard.group.holders) == ALL
        assert shard.group.epoch == 2
        reply = shard.join(SUCCESSOR, **STATIC)
        assert (reply.error_code, reply.member_epoch, assigned(reply)) == (Code.NONE, 2, OF_B)
        assert shard.group.epoch == 2, "nothing has changed for assignors"
        assert list(shard.group.members) == [W1, SUCCESSOR]
        assert not shard.group.lingering

    def test_it_is_back_under_its_member_id(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, -2, **STATIC)
        reply = shard.join(W2, **STATIC)
        assert (reply.member_epoch, assigned(reply)) == (2, OF_B)

    def test_it_is_not_back_in_time(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, -2, **STATIC)
        keep_alive(shard, W1, ms=10_000)
        assert list(shard.group.members) == [W1]
        assert shard.group.epoch == 3

    def test_while_it_is_away_it_is_none(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, -2, **STATIC)
        assert shard.heartbeat(W2, 2).error_code == Code.UNKNOWN_MEMBER_ID
        assert shard.heartbeat(W2, -2, instance_id="another").error_code == Code.UNKNOWN_MEMBER_ID

    def test_it_is_not_chosen_while_it_is_away(self) -> None:
        shard = two_members()
        shard.leave(W1)
        shard.compute(W2, {W2: ALL})
        shard.heartbeat(W2, 2)
        shard.join(W1)
        shard.heartbeat(W2, -2, **STATIC)
        assert shard.heartbeat(W1, 3).error_code == Code.COMPUTE_ASSIGNMENT

    def test_another_process_takes_its_place_and_what_may_still_run_is_held(self) -> None:
        shard = two_members()
        shard.sleep(4_000)
        shard.heartbeat(W1, 2, **whole())
        held = shard.held(W2, 2)
        shard.sleep(2_000)
        reply = shard.join(SUCCESSOR, **STATIC)
        assert (reply.member_epoch, assigned(reply)) == (0, NO_TASKS)
        assert shard.reply_to(held).error_code == Code.FENCED_INSTANCE_ID
        assert shard.group.lingering == {W2}
        assert dict(shard.group.target.members)[SUCCESSOR].tasks == OF_B
        keep_alive(shard, W1, SUCCESSOR, ms=7_000)
        assert not shard.group.current[SUCCESSOR].assigned
        keep_alive(shard, W1, SUCCESSOR, ms=1_000)
        assert shard.group.current[SUCCESSOR].assigned == OF_B
        assert shard.group.epoch == 2

    def test_who_says_that_it_owns_what_the_former_one_has_may_be_one_before_that(self) -> None:
        """Cut off since it was at epoch 0, and long replaced: the former one runs what it would start again."""
        shard = two_members()
        refused = shard.heartbeat(SUCCESSOR, 0, tasks("BT1"), **whole(**STATIC))
        assert refused.error_code == Code.UNKNOWN_MEMBER_ID
        assert shard.group.current[W2].held == OF_B
        assert W2 in shard.group.members

    def test_what_it_says_that_it_owns_it_can_not(self) -> None:
        shard = two_members()
        assert shard.heartbeat(SUCCESSOR, 0, OF_A, **whole(**STATIC)).error_code == Code.UNKNOWN_MEMBER_ID
        assert W2 in shard.group.members

    def test_the_former_one_is_fenced_by_its_name(self) -> None:
        shard = two_members()
        shard.join(SUCCESSOR, **STATIC)
        assert shard.heartbeat(W2, 2).error_code == Code.FENCED_INSTANCE_ID

    def test_who_is_in_the_group_can_not_take_a_name(self) -> None:
        shard = two_members()
        assert shard.join(W1, **STATIC).error_code == Code.FENCED_INSTANCE_ID
        shard.heartbeat(W1, 2, OF_A, **whole(**STATIC))
        assert dict(shard.group.instances) == {"worker-2": W2}

    def test_the_former_one_ends_in_order(self) -> None:
        shard = two_members()
        shard.join(SUCCESSOR, **STATIC)
        held = shard.held(SUCCESSOR, 0)
        shard.heartbeat(W2, -1)
        assert assigned(shard.reply_to(held)) == OF_B

    def test_what_was_being_computed_is_computed_anew(self) -> None:
        """It would have given tasks to the former member."""
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        prepared = shard.prepare(W1, 2)
        shard.join(SUCCESSOR, **STATIC)
        assert shard.install(W1, 2, prepared.group_epoch, {W2: ALL}).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS


class TestConfiguration:
    def test_it_is_kept_and_followed(self) -> None:
        shard = two_members()
        shard.configure(session_timeout_ms=20_000, heartbeat_interval_ms=500)
        assert [type(record.key) for record in shard.written] == [ConnectWorkerGroupConfigurationKey]
        shard.fail_over()
        held = shard.held(W1, 2)
        shard.sleep(500)
        reply = shard.reply_to(held)
        assert (reply.heartbeat_interval_ms, reply.session_timeout_ms) == (500, 20_000)

    def test_the_same_again_writes_nothing(self) -> None:
        shard = two_members()
        shard.configure(session_timeout_ms=20_000)
        shard.configure(session_timeout_ms=20_000)
        assert not shard.written

    def test_nothing_is_a_tombstone(self) -> None:
        shard = two_members()
        shard.configure(session_timeout_ms=5_000)
        shard.configure()
        assert [record.value for record in shard.written] == [None]
        assert shard.heartbeat(W1, 2, **whole()).session_timeout_ms == 10_000

    def test_a_shorter_session_does_not_end_one_that_was_granted(self) -> None:
        """Neither with this coordinator nor with the next."""
        for fails_over in (False, True):
            shard = Shard()
            shard.configure(session_timeout_ms=30_000)
            shard.join(W1)
            shard.configure(session_timeout_ms=5_000)
            if fails_over:
                shard.fail_over()
            shard.sleep(29_999)
            assert W1 in shard.group.members
            shard.sleep(1)
            assert W1 not in shard.group.members

    def test_before_the_group(self) -> None:
        shard = Shard()
        shard.configure(session_timeout_ms=20_000)
        assert shard.join(W1).session_timeout_ms == 20_000

    def test_heartbeats_are_not_too_far_apart(self) -> None:
        shard = Shard(CoordinatorSettings(session_timeout_ms=3_000))
        assert shard.join(W1).heartbeat_interval_ms == 900

    @pytest.mark.parametrize(
        "wrong", [{"session_timeout_ms": 0}, {"heartbeat_interval_ms": -1}, {"scheduled_rebalance_max_delay_ms": -1}]
    )
    def test_a_time_that_is_none(self, wrong: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="set it to"):
            GroupConfiguration(**wrong)


class TestAnotherCoordinator:
    def test_a_fresh_session_for_all(self) -> None:
        shard = two_members()
        shard.sleep(9_999)
        shard.fail_over()
        shard.sleep(9_999)
        assert set(shard.group.members) == {W1, W2}
        shard.sleep(1)
        assert not shard.group.members

    def test_nobody_notices(self) -> None:
        shard = two_members()
        shard.fail_over()
        assert not shard.written
        shard.held(W1, 2)
        shard.held(W2, 2)
        assert not shard.written

    def test_it_chooses_anew(self) -> None:
        shard = two_members()
        shard.join(W3)
        shard.heartbeat(W1, 2)
        epoch = shard.prepare(W1, 2).group_epoch
        shard.fail_over()
        assert shard.install(W1, 2, epoch, {W1: ALL}).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
        chosen = [one for one in (W1, W2) if shard.heartbeat(one, 2, **whole()).error_code == Code.COMPUTE_ASSIGNMENT]
        assert len(chosen) == 1

    def test_a_topic_that_is_compacted_in_part(self) -> None:
        """What is left says first that W1 has all, then that W2 has a part, and then that W1 has the other part."""
        shard = Shard()
        shard.read_jobs(ALL)
        shard.join(W1)
        shard.compute(W1, {W1: ALL})
        shard.heartbeat(W1, 0)
        had_all = len(shard.log) - 1
        shard.join(W2)
        shard.heartbeat(W1, 1)
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.heartbeat(W1, 1)
        shard.heartbeat(W1, 1, OF_A)
        shard.heartbeat(W2, 1)
        shard.join(W3)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.heartbeat(W1, 2)
        shard.fail_over(kept={had_all})
        assert {task: shard.group.holders[task] for task in ALL} == {
            **dict.fromkeys(OF_A, W1),
            **dict.fromkeys(OF_B, W2),
        }

    def test_what_may_still_run_is_still_held(self) -> None:
        shard = two_members()
        shard.heartbeat(W2, 1)
        shard.sleep(9_000)
        shard.fail_over()
        assert shard.group.lingering == {W2}
        keep_alive(shard, W1, ms=9_000)
        assert shard.group.lingering == {W2}
        keep_alive(shard, W1, ms=1_000)
        assert not shard.group.lingering

    def test_a_revocation_has_its_time_again(self) -> None:
        shard = two_members()
        shard.read_jobs(OF_A)
        shard.heartbeat(W1, 2)
        shard.compute(W1, {W1: OF_A})
        shard.heartbeat(W2, 2)
        keep_alive(shard, W1, W2, ms=50_000)
        shard.fail_over()
        keep_alive(shard, W1, W2, ms=59_000)
        assert W2 in shard.group.members
        keep_alive(shard, W1, ms=1_000)
        assert W2 not in shard.group.members

    def test_that_is_switched_off_removes_nobody(self) -> None:
        shard = two_members()
        shard.settings = CoordinatorSettings(enabled=False)
        shard.fail_over()
        shard.sleep(60_000)
        assert set(shard.group.members) == {W1, W2}


class TestTimers:
    def test_what_is_put_off_does_not_come_early(self) -> None:
        timers, timer = Timers(), Timer(Kind.SESSION, "g", W1)
        timers.set(timer, 10)
        timers.set(timer, 20)
        assert timers.next_ms == 10
        assert list(timers.due(10)) == []
        assert timers.next_ms == 20
        assert list(timers.due(20)) == [timer]
        assert timers.next_ms is None

    def test_what_is_brought_forward_comes_once(self) -> None:
        timers, timer = Timers(), Timer(Kind.SESSION, "g", W1)
        timers.set(timer, 20)
        timers.set(timer, 10)
        assert list(timers.due(30)) == [timer]

    def test_what_is_cancelled_does_not_come(self) -> None:
        timers, timer = Timers(), Timer(Kind.SESSION, "g", W1)
        timers.set(timer, 10)
        timers.cancel(timer)
        assert list(timers.due(10)) == []
