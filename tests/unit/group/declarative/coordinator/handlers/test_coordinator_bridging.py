"""A coordinator whose group is also one member of a classic one: its bridge's words are events here."""

from __future__ import annotations

import pytest
from coordinated import GROUP, W1, W2, Shard, assigned, tasks

from airflow_provider.group.declarative.coordinator.events import BridgeClaims, BridgeLost, BridgeSaid
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks

SESSION_MS = 10_000
LONG_MS = 100_000


class Bridged(Shard):
    def __init__(self) -> None:
        super().__init__(CoordinatorSettings(session_timeout_ms=SESSION_MS, migration=MigrationPolicy.BIDIRECTIONAL))

    def bridge(self, epoch: int, given: Tasks, lease_ms: int = LONG_MS) -> None:
        self.handle(
            BridgeSaid(
                now_ms=self.now, group_id=GROUP, epoch=Epoch(epoch), tasks=given, lease_until_ms=self.now + lease_ms
            )
        )

    def lost(self) -> None:
        self.handle(BridgeLost(now_ms=self.now, group_id=GROUP))

    def free(self, asked: Tasks) -> Tasks:
        return self.coordinator.to_bridge(GROUP, asked).free

    @property
    def wants_epoch(self) -> bool:
        return self.coordinator.to_bridge(GROUP, NO_TASKS).wants_epoch


@pytest.fixture
def shard() -> Bridged:
    return Bridged()


def one_member(shard: Bridged, given: Tasks, epoch: int = 7) -> None:
    """W1 is in the group, and runs all that the bridge was given in this epoch."""
    shard.bridge(epoch, given)
    reply = shard.join(W1)
    assert reply.error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
    shard.compute(W1, {W1: given})
    reply = shard.heartbeat(W1, 0, ())
    assert (assigned(reply), reply.member_epoch) == (given, epoch)


def test_what_classic_rounds_give_to_the_bridge_is_run_in_their_epochs(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    assert shard.group.epoch == 7
    shard.bridge(9, tasks("AT1", "AT2", "AT3"))
    assert shard.group.epoch == 9
    assert shard.heartbeat(W1, 7).error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
    shard.compute(W1, {W1: tasks("AT1", "AT2", "AT3")})
    reply = shard.heartbeat(W1, 7)
    assert reply.assignment is not None
    assert (assigned(reply), reply.assignment.assignment_epoch) == (tasks("AT1", "AT2", "AT3"), 9)


def test_what_needs_an_epoch_waits_for_the_next_round(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    assert not shard.wants_epoch
    shard.join(W2)
    assert shard.group.epoch == 7
    assert shard.wants_epoch
    shard.bridge(7, tasks("AT1", "AT2"))
    assert shard.wants_epoch
    shard.bridge(8, tasks("AT1", "AT2"))
    assert shard.group.epoch == 8
    assert not shard.wants_epoch


def test_the_bridge_lets_go_of_what_nobody_runs_any_more(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    shard.bridge(8, tasks("AT1"))
    assert shard.free(tasks("AT1", "AT2")) == NO_TASKS
    shard.heartbeat(W1, 7)
    shard.compute(W1, {W1: tasks("AT1")})
    assert assigned(shard.heartbeat(W1, 7)) == tasks("AT1")
    assert shard.free(tasks("AT2")) == NO_TASKS
    shard.heartbeat(W1, 7, tasks("AT1"))
    assert shard.free(tasks("AT1", "AT2")) == tasks("AT2")


def released_on_its_way(shard: Bridged) -> None:
    """By the target of epoch 8, AT2 goes from W1 to W2. But a round takes it from the bridge, which has released it."""
    one_member(shard, tasks("AT1", "AT2"))
    shard.join(W2)
    shard.bridge(8, tasks("AT1", "AT2"))
    shard.heartbeat(W1, 7)
    shard.compute(W1, {W1: tasks("AT1"), W2: tasks("AT2")})
    assert assigned(shard.heartbeat(W1, 7)) == tasks("AT1")
    shard.bridge(9, tasks("AT1"))  # W1 still runs AT2
    shard.heartbeat(W1, 7, tasks("AT1"))
    assert shard.free(tasks("AT2")) == tasks("AT2")


def test_nobody_is_given_by_an_earlier_target_what_the_bridge_has_to_give_up(shard: Bridged) -> None:
    released_on_its_way(shard)
    reply = shard.heartbeat(W2, 7, (), rebalance_timeout_ms=1_000)
    assert assigned(reply) in (None, NO_TASKS)
    assert not shard.group.current[W2].held


def test_what_has_come_back_to_the_bridge_is_run_by_a_target_that_was_made_since(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    shard.bridge(8, tasks("AT1"))
    shard.heartbeat(W1, 7)
    shard.compute(W1, {W1: tasks("AT1")})
    shard.heartbeat(W1, 7)
    shard.heartbeat(W1, 7, tasks("AT1"))
    assert shard.free(tasks("AT2")) == tasks("AT2")
    shard.bridge(9, tasks("AT1", "AT2"))
    shard.heartbeat(W1, 8)
    shard.compute(W1, {W1: tasks("AT1", "AT2")})
    shard.bridge(10, tasks("AT1"))
    shard.bridge(12, tasks("AT1", "AT2"))  # before W1 has heard of anything since 8
    reply = shard.heartbeat(W1, 8, tasks("AT1"), rebalance_timeout_ms=1_000)
    assert assigned(reply) == tasks("AT1")
    shard.compute(W1, {W1: tasks("AT1", "AT2")})
    reply = shard.heartbeat(W1, 8, tasks("AT1"), rebalance_timeout_ms=1_000)
    assert reply.assignment is not None
    assert (assigned(reply), reply.assignment.assignment_epoch) == (tasks("AT1", "AT2"), 12)


def test_no_session_reaches_beyond_the_lease_of_the_bridge(shard: Bridged) -> None:
    one_member(shard, tasks("AT1"))
    shard.bridge(7, tasks("AT1"), lease_ms=4_000)
    reply = shard.heartbeat(W1, 0, tasks("AT1"), rebalance_timeout_ms=1_000)
    assert reply.session_timeout_ms == 4_000
    shard.sleep(3_990)
    assert shard.heartbeat(W1, 0, tasks("AT1"), rebalance_timeout_ms=1_000).session_timeout_ms == 10
    shard.sleep(100)
    assert W1 in shard.group.members  # it may live on the session that it was granted first
    shard.sleep(SESSION_MS)
    assert W1 not in shard.group.members


def test_when_the_bridge_is_lost_all_who_have_tasks_begin_anew(shard: Bridged) -> None:
    one_member(shard, tasks("AT1"))
    shard.lost()
    assert W1 not in shard.group.members
    assert shard.heartbeat(W1, 7, tasks("AT1")).error_code == KafkaErrorCode.UNKNOWN_MEMBER_ID
    assert shard.free(tasks("AT1")) == NO_TASKS
    shard.sleep(SESSION_MS)
    assert shard.free(tasks("AT1")) == tasks("AT1")


def test_the_next_coordinator_removes_who_has_what_its_bridge_was_not_left(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    shard.fail_over()
    assert shard.coordinator.claims(GROUP) == BridgeClaims(tasks=tasks("AT1", "AT2"), epoch=Epoch(7))
    shard.bridge(12, tasks("AT1"))
    assert W1 not in shard.group.members
    assert shard.free(tasks("AT2")) == NO_TASKS


def test_the_next_coordinator_goes_on_where_the_bridge_was_left_everything(shard: Bridged) -> None:
    one_member(shard, tasks("AT1", "AT2"))
    shard.fail_over()
    shard.bridge(7, tasks("AT1", "AT2"))
    assert shard.heartbeat(W1, 0, tasks("AT1", "AT2"), rebalance_timeout_ms=1_000).error_code == 0
    assert shard.wants_epoch  # it can't know whether one was wanted


def test_the_next_coordinator_gives_what_nobody_held_in_an_epoch_after_its_return(shard: Bridged) -> None:
    """Classic workers may have run it in the epochs since the target: no record says so."""
    released_on_its_way(shard)
    shard.bridge(11, tasks("AT1", "AT2"))
    assert (shard.group.configured, shard.group.target.epoch) == (tasks("AT1", "AT2"), 8)
    shard.fail_over()
    shard.bridge(12, tasks("AT1", "AT2"))
    assert assigned(shard.heartbeat(W2, 7, (), rebalance_timeout_ms=1_000)) in (None, NO_TASKS)
    assert shard.heartbeat(W1, 8).error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
    shard.compute(W1, {W1: tasks("AT1"), W2: tasks("AT2")})
    reply = shard.heartbeat(W2, 7, (), rebalance_timeout_ms=1_000)
    assert reply.assignment is not None
    assert (assigned(reply), reply.assignment.assignment_epoch) == (tasks("AT2"), 12)


def test_the_next_bridge_claims_nothing_that_the_former_one_may_have_released(shard: Bridged) -> None:
    released_on_its_way(shard)
    shard.bridge(11, tasks("AT1", "AT2"))
    shard.bridge(11, tasks("AT1"))  # no epoch records this before the bridge's next round
    assert shard.free(tasks("AT2")) == tasks("AT2")
    shard.fail_over()
    assert shard.coordinator.claims(GROUP).tasks == tasks("AT1")


def test_a_group_that_nobody_is_in_claims_nothing_of_its_former_life(shard: Bridged) -> None:
    one_member(shard, tasks("AT1"))
    shard.leave(W1)
    shard.fail_over()
    assert shard.coordinator.claims(GROUP).tasks == NO_TASKS
    shard.bridge(20, NO_TASKS)
    shard.join(W2)
    assert shard.group.configured == NO_TASKS
    assert shard.group.epoch == 20
