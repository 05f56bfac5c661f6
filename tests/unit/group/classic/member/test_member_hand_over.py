"""One membership, first in one process, then in another: from a task process to the triggerer and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from member_script import NODE, Script
from simulation.world import SETTINGS, World

from airflow_provider.group.classic.member.events import CoordinatorFound, Resumed, SendHeartbeat, SendJoin
from airflow_provider.group.classic.member.saved import resume, save, taken_over
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import (
    NO_TASKS,
    ConfigOffset,
    ConnectProtocol,
    SubProtocol,
    TaskId,
    planner_of,
)

TASKS = [planner_of("a"), *(TaskId("a", index) for index in range(5))]
SESSION_MS = SETTINGS.session_timeout_ms
EITHER = pytest.mark.parametrize("worker", ["leader", "follower"])


@pytest.fixture
def world() -> World:
    world = World(3)
    world.configure(TASKS)
    world.start("leader")
    world.run(1_000)
    world.start("follower")
    world.run(10_000)
    assert world.settled
    return world


@EITHER
def test_goes_on_as_the_same_member_without_a_rebalance(world: World, worker: str) -> None:
    before, had, rounds = world.processes[worker].state, world.running(worker), len(world.coordinator.rounds)
    saved = world.hand_over(worker)
    world.run(3_000)
    after = world.go_on(worker, saved)
    world.run(100)

    assert after.state.phase is Phase.STABLE
    assert (after.state.member_id, after.state.generation) == (before.member_id, before.generation)
    assert after.state.epoch == before.epoch
    assert frozenset(after.running) == had
    world.run(30_000)
    assert len(world.coordinator.rounds) == rounds
    assert world.settled


@EITHER
def test_starts_nothing_before_it_has_a_valid_lease(world: World, worker: str) -> None:
    saved = world.hand_over(worker)
    world.run(SESSION_MS - 500)
    world.coordinator_away = True
    after = world.go_on(worker, saved)
    world.run(400)
    assert after.running == {}


def test_a_long_hand_over_within_the_session_stops_nothing(world: World) -> None:
    """The lease's margin is over, but nothing runs that would have to stop; and the session is not over."""
    had, rounds = world.running("follower"), len(world.coordinator.rounds)
    world.run(SETTINGS.heartbeat_interval_ms)
    saved = world.hand_over("follower")
    world.run(SESSION_MS - SETTINGS.heartbeat_interval_ms - 100)
    after = world.go_on("follower", saved)
    world.run(20_000)
    assert frozenset(after.running) == had
    assert len(world.coordinator.rounds) == rounds


def test_a_rebalance_that_began_meanwhile_is_joined_with_what_the_worker_owns(world: World) -> None:
    had = world.running("follower")
    saved = world.hand_over("follower")
    world.start("newcomer")
    world.run(4_000)
    after = world.go_on("follower", saved)
    world.run_until(lambda: world.settled, within_ms=10_000)
    assert after.state.member_id == saved["member_id"]
    assert frozenset(after.running) <= had, "what it had to give up is the newcomer's, it got nothing else"
    assert world.running("newcomer") & had | frozenset(after.running) == had


def test_a_stale_generation_joins_again(world: World) -> None:
    """The coordinator went on without this static member when the rebalance timeout was over."""
    saved = world.hand_over("follower")
    saved["generation"] -= 1
    saved["last_completed"] -= 1
    after = world.go_on("follower", saved)
    world.run(5_000)
    world.run_until(lambda: world.settled, within_ms=20_000)
    assert after.state.member_id == saved["member_id"]
    assert after.state.generation == world.coordinator.generation


def test_expelled_meanwhile_it_joins_anew_and_starts_nothing_before(world: World) -> None:
    had = world.running("follower")
    saved = world.hand_over("follower")
    world.run(SESSION_MS + 5_000)
    after = world.go_on("follower", saved)
    world.run_until(lambda: after.state.member_id not in ("", saved["member_id"]))
    assert after.running == {}
    world.run_until(lambda: world.settled, within_ms=5_000)
    assert frozenset(after.running) == had, "it came back within the scheduled delay"


@pytest.mark.parametrize("at_ms", [1, 4, 6, 9, 12, 60, 120])
def test_a_rebalance_cut_short_by_the_hand_over_is_joined_again(world: World, at_ms: int) -> None:
    world.start("newcomer")
    world.run_until(lambda: world.processes["follower"].state.phase is not Phase.STABLE)
    world.run(at_ms)
    saved = world.hand_over("follower")
    world.run(200)
    world.go_on("follower", saved)
    world.run_until(lambda: world.settled, within_ms=40_000)


def test_a_rebalance_cut_short_may_have_gone_back_to_eager_so_nothing_starts_before_its_assignment() -> None:
    """The process before has not heard by which protocol the group goes on, and eager metadata name no tasks."""
    world = World(3, settings=replace(SETTINGS, protocol=ConnectProtocol.COMPATIBLE))
    world.configure(TASKS)
    world.start("leader")
    world.run(1_000)
    world.start("follower")
    world.run_until(lambda: world.settled)
    world.processes["leader"].sleep(500)
    world.start("newcomer", protocol=ConnectProtocol.EAGER)
    world.run_until(lambda: world.processes["follower"].state.phase is Phase.PREPARING_REBALANCE)
    saved = world.hand_over("follower")
    after = world.go_on("follower", saved)
    world.run(1)
    assert after.state.owned
    assert after.running == {}
    world.run_until(lambda: world.settled)
    assert after.state.protocol is SubProtocol.DEFAULT
    assert after.running


def test_tasks_that_were_told_to_stop_end_with_the_process_that_ran_them() -> None:
    world = World(4, stop_ms=(5_000, 5_000))
    world.configure(TASKS)
    process = world.start("w")
    world.run(1_000)
    world.start("newcomer")
    world.run_until(lambda: bool(process.state.stopping))
    stopping = process.state.stopping
    saved = world.hand_over("w")
    assert frozenset(map(tuple, saved["owned"])) == frozenset(TASKS) - stopping
    world.go_on("w", saved)
    world.run(10_000)
    assert world.settled


def test_the_scheduled_delay_runs_on(world: World) -> None:
    world.leave("follower")
    world.run(5_000)
    saved = world.hand_over("leader")
    world.run(2_000)
    world.go_on("leader", saved)
    world.run(280_000)
    assert not world.settled
    world.run(20_000)
    assert world.settled


def test_the_lease_of_an_unknown_predecessor_is_waited_out_after_a_hand_over_too(world: World) -> None:
    world.processes["follower"].cut_off = True
    world.start("follower", predecessor=Predecessor.UNKNOWN)
    world.run(1_000)
    saved = world.hand_over("follower")
    world.run(1_000)
    after = world.go_on("follower", saved)
    world.run(SESSION_MS - 2_200)
    assert frozenset(after.running) == NO_TASKS
    world.run(1_000)
    assert after.running


def test_who_had_not_joined_yet_says_nothing_before_it_has() -> None:
    """A heartbeat without a member id would look like another process's under the name that is just joining."""
    newcomer = Script()
    saved = save(newcomer.state, now_ms=0, wall_ms=0)
    after = Script(state=resume(saved, newcomer.state.settings, now_ms=0, wall_ms=0))
    after.feed(Resumed, config_offset=ConfigOffset(0))
    (join,) = after.feed(CoordinatorFound, node=NODE)
    assert isinstance(join, SendJoin)
    assert after.alarms(until=30_000) == []
    after.joined()
    assert any(isinstance(command, SendHeartbeat) for _, command in after.alarms(until=34_000))


@EITHER
def test_taken_over_it_is_a_new_member_of_the_same_round_and_the_old_one_is_fenced(worker: str) -> None:
    """As when a triggerer stalls and another one takes its triggers: neither knows how the other is."""
    world = World(5)
    world.start("leader")
    world.run(1_000)
    world.start("follower")
    world.run(10_000)
    old, rounds = world.processes[worker], len(world.coordinator.rounds)
    before = old.state
    saved = save(before, now_ms=old.now, wall_ms=world.wall)
    world.run(1_000)
    new = world.go_on(worker, taken_over(json.loads(json.dumps(saved))))
    world.run(SETTINGS.heartbeat_interval_ms)

    assert old.state.phase is Phase.FENCED
    assert new.state.phase is Phase.STABLE
    assert new.state.member_id != before.member_id
    assert (new.state.generation, new.state.epoch) == (before.generation, before.epoch)
    world.run(2 * SESSION_MS)
    assert len(world.coordinator.rounds) == rounds, "nobody had to join again"

    world.configure(TASKS)
    world.run(10_000)
    assert world.settled
    assert new.running
    assert not old.running


def test_who_has_to_join_anew_after_a_hand_over_may_find_another_process_under_its_name() -> None:
    """As when it was expelled, and nobody held the name for a while."""
    world = World(6)
    world.configure(TASKS)
    world.start("w")
    world.run(1_000)
    saved = taken_over(world.hand_over("w"))
    other = world.start("w")
    world.run_until(lambda: bool(other.running))
    other.cut()
    after = world.go_on("w", saved)
    world.run_until(lambda: bool(after.running))
    assert not other.running, "its lease was over by then"
