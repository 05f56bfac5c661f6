"""Static members: what a worker that comes back under its name goes on with.

The trap: the coordinator answers a static member that comes back to a stable group with the bytes of the last round,
and those say what changed in that round, not what the worker has.
"""

from __future__ import annotations

import pytest
from simulation.group import GroupState
from simulation.world import SETTINGS, World

from airflow_provider.assignment.policy import IMMEDIATE, Deferred
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import NO_TASKS, ConnectProtocol, TaskId, Tasks, planner_of

TASKS = [planner_of("a"), planner_of("b"), *(TaskId("a", index) for index in range(4)), TaskId("b", 0)]
SESSION_MS = SETTINGS.session_timeout_ms
EITHER = pytest.mark.parametrize("worker", ["leader", "follower"])


@pytest.fixture
def world() -> World:
    """A stable group of three."""
    world = World(1)
    world.configure(TASKS)
    for worker in ("leader", "follower", "other"):
        world.start(worker)
        world.run(1_000)
    world.run(9_000)
    assert world.settled
    assert world.coordinator.leader == "leader"
    return world


def nobody_else_noticed(world: World, worker: str, since: int) -> bool:
    others = [process for name, process in world.live.items() if name != worker]
    return all(started < since for process in others for started in process.running.values())


@EITHER
def test_killed_and_back_within_the_session_it_goes_on_with_its_own_tasks(world: World, worker: str) -> None:
    had, rounds, killed_at = world.running(worker), len(world.coordinator.rounds), world.clock.now
    world.kill(worker)
    world.run(5_000)
    world.start(worker)
    world.run_until(lambda: world.running(worker) == had, within_ms=100)
    world.run(60_000)

    assert world.running(worker) == had
    assert len(world.coordinator.rounds) == rounds, "no rebalance"
    assert nobody_else_noticed(world, worker, killed_at)
    assert world.settled


@EITHER
def test_also_when_the_last_round_gave_it_nothing_new(world: World, worker: str) -> None:
    world.configure([*TASKS, TaskId("b", 1)])
    world.run(5_000)
    assert world.record is not None
    assert [move.target for move in world.record.moves] == ["other"]
    had, rounds = world.running(worker), len(world.coordinator.rounds)
    assert had

    world.kill(worker)
    world.run(3_000)
    world.start(worker)
    world.run(20_000)

    assert world.running(worker) == had
    assert len(world.coordinator.rounds) == rounds


@EITHER
def test_again_and_again(world: World, worker: str) -> None:
    had, rounds = world.running(worker), len(world.coordinator.rounds)
    for _ in range(5):
        world.kill(worker)
        world.run(2_000)
        world.start(worker)
        world.run(2_000)
        assert world.running(worker) == had
    assert len(world.coordinator.rounds) == rounds


def test_the_whole_group_is_killed_and_back_within_the_session(world: World) -> None:
    had = {worker: world.running(worker) for worker in world.live}
    rounds = len(world.coordinator.rounds)
    for worker in had:
        world.kill(worker)
    world.run(4_000)
    for worker in had:
        world.start(worker)
    world.run(20_000)

    assert {worker: world.running(worker) for worker in world.live} == had
    assert len(world.coordinator.rounds) == rounds


@EITHER
def test_without_a_record_it_joins_again_with_what_it_really_has(world: World, worker: str) -> None:
    """The leader died before it could write the record of the last round."""
    rounds = len(world.coordinator.rounds)
    world.record = None
    world.kill(worker)
    world.run(1_000)
    process = world.start(worker)
    world.run(100)
    assert process.state.phase is Phase.STABLE
    assert process.running == {}, "it cannot know what is its own"
    world.run_until(lambda: len(world.coordinator.rounds) > rounds, within_ms=SESSION_MS)
    world.run(400_000)
    assert world.settled


def test_a_group_that_rebalances_is_not_kept_waiting_for_a_record(world: World) -> None:
    """The leader writes none, as one of Java Connect's."""
    world.record = None
    world.kill("follower")
    world.run(1_000)
    process = world.start("follower")
    world.run(100)
    assert process.state.unadopted is not None
    world.start("newcomer")
    world.run_until(lambda: process.state.phase is Phase.PREPARING_REBALANCE, within_ms=SESSION_MS // 10)
    world.run(400_000)
    assert world.settled


@EITHER
def test_a_record_of_another_round_says_nothing(world: World, worker: str) -> None:
    rounds = len(world.coordinator.rounds)
    world.record = world.records[0]
    world.kill(worker)
    world.run(1_000)
    process = world.start(worker)
    world.run(100)
    assert process.running == {}
    world.run_until(lambda: len(world.coordinator.rounds) > rounds, within_ms=SESSION_MS)
    world.run(400_000)
    assert world.settled


def test_the_record_may_come_after_the_answer(world: World) -> None:
    had, rounds, record = world.running("follower"), len(world.coordinator.rounds), world.record
    world.record = None
    world.kill("follower")
    world.run(1_000)
    process = world.start("follower")
    world.run(500)
    assert process.running == {}
    world.record = record
    process.read_status()
    world.run(20_000)
    assert world.running("follower") == had
    assert len(world.coordinator.rounds) == rounds


@EITHER
def test_what_an_unknown_predecessor_may_still_run_waits_a_session(world: World, worker: str) -> None:
    had, rounds = world.running(worker), len(world.coordinator.rounds)
    old = world.processes[worker]
    old.cut_off = True
    new = world.start(worker, predecessor=Predecessor.UNKNOWN)
    taken_over_at = world.clock.now
    world.run(SESSION_MS - 1_000)
    assert new.state.owned == had
    assert not old.running, "its lease was over before, and it saw to that by itself"
    assert not new.running
    world.run(1_500)
    assert frozenset(new.running) == had
    assert min(new.running.values()) >= taken_over_at + SESSION_MS
    assert len(world.coordinator.rounds) == rounds


def test_who_takes_over_in_a_rebalance_speaks_for_the_tasks_of_its_predecessor(world: World) -> None:
    """Otherwise they would be given to others while the predecessor still runs them."""
    had, old = world.running("follower"), world.processes["follower"]
    old.cut_off = True
    world.start("newcomer")
    world.run_until(lambda: world.coordinator.state is GroupState.PREPARING)
    new = world.start("follower", predecessor=Predecessor.UNKNOWN)
    world.run_until(lambda: bool(new.state.owned))

    assert new.state.owned <= had
    assert old.running
    old.reconnect()
    world.run(60_000)
    assert world.settled


def test_what_it_must_give_up_it_gives_up_when_the_lease_of_its_predecessor_is_over(world: World) -> None:
    """It can't stop what another process may still run; so nobody else is given it before."""
    old = world.processes["leader"]
    old.cut_off = True
    new = world.start("leader", predecessor=Predecessor.UNKNOWN)
    taken_over_at = world.clock.now
    world.run(100)
    world.start("newcomer")
    world.run_until(lambda: bool(new.state.stopping))
    given_up = new.state.stopping
    world.run(taken_over_at + SESSION_MS - 100 - world.clock.now)
    assert new.state.stopping == given_up
    old.reconnect()
    world.run_until(lambda: world.settled)
    assert not given_up & new.state.owned


def test_without_a_record_it_joins_again_only_when_the_lease_of_its_predecessor_is_over(world: World) -> None:
    """Until then it can't say that nobody runs what it does not know of."""
    rounds = len(world.coordinator.rounds)
    world.record = None
    world.processes["follower"].cut_off = True
    world.start("follower", predecessor=Predecessor.UNKNOWN)
    world.run(SESSION_MS - 1_000)
    assert len(world.coordinator.rounds) == rounds
    world.run(1_000 + SETTINGS.heartbeat_interval_ms)
    assert len(world.coordinator.rounds) > rounds


def test_expelled_while_its_predecessor_may_run_it_joins_anew_when_that_one_cannot_any_more() -> None:
    """Nothing but the clock tells it so: what it gives up then never ran here, and no other worker writes a record."""
    world = World(1)
    world.configure(TASKS)
    world.start("only")
    world.run(2_000)
    world.processes["only"].cut_off = True
    new = world.start("only", predecessor=Predecessor.UNKNOWN)
    world.run(1_000)
    assert new.state.held == frozenset(TASKS)
    world.coordinator.forget()
    world.run(5_000)
    assert (new.state.phase, frozenset(new.running)) == (Phase.UNJOINED, frozenset())
    world.run(60_000)
    assert (new.state.phase, frozenset(new.running)) == (Phase.STABLE, frozenset(TASKS))


def test_the_older_of_two_namesakes_is_fenced(world: World) -> None:
    old, had = world.processes["follower"], world.running("follower")
    new = world.start("follower", predecessor=Predecessor.UNKNOWN)
    world.run(SETTINGS.heartbeat_interval_ms + 100)
    assert old.state.phase is Phase.FENCED
    assert frozenset(old.running) == NO_TASKS
    world.run(SESSION_MS)
    assert frozenset(new.running) == had


def test_a_leader_that_comes_back_in_a_delay_does_not_prolong_it() -> None:
    world = World(2, policy=Deferred(max_delay_ms=60_000))
    world.configure(TASKS)
    world.start("leader")
    world.run(1_000)
    world.start("lost")
    world.run(10_000)
    lost: Tasks = world.running("lost")
    world.leave("lost")
    world.run_until(lambda: world.record is not None and world.record.delay_ms > 0)
    began = world.clock.now
    world.run(50_000)
    world.kill("leader")
    world.run(2_000)
    world.start("leader")
    world.run_until(lambda: lost <= world.running("leader"), within_ms=60_000)
    assert world.clock.now - began < 60_500


def test_out_of_the_group_for_longer_than_a_session_it_is_a_new_member(world: World) -> None:
    had, rounds = world.running("follower"), len(world.coordinator.rounds)
    world.kill("follower")
    world.run(SESSION_MS + SETTINGS.heartbeat_interval_ms)
    assert "follower" not in world.coordinator.members
    assert len(world.coordinator.rounds) == rounds + 1
    world.start("follower")
    world.run_until(lambda: world.settled, within_ms=10_000)
    assert world.running("follower") == had, "lost work waits for the scheduled delay, but not for who is back"
    assert len(world.coordinator.rounds) == rounds + 2


@pytest.mark.parametrize("recorded", [True, False])
def test_a_leader_of_an_eager_group_comes_back_as_well(recorded: bool) -> None:
    """Without a record it could not tell that the last round does not cover what is configured by now."""
    world = World(1)
    world.configure(TASKS)
    for worker in ("leader", "follower"):
        world.start(worker, protocol=ConnectProtocol.EAGER)
        world.run(5_000)
    had, rounds = world.running("leader"), len(world.coordinator.rounds)
    if not recorded:
        world.record = None
    world.kill("leader")
    world.run(1_000)
    world.start("leader", protocol=ConnectProtocol.EAGER)
    world.run(20_000)
    assert world.settled
    assert (len(world.coordinator.rounds) == rounds) is recorded
    assert world.running("leader") == had


# ---- leaving while a predecessor may still run


@pytest.mark.parametrize("after_ms", [0, 3, 6, 20, 5_000])
def test_who_took_a_name_over_and_leaves_gives_nobody_what_its_predecessor_may_run(world: World, after_ms: int) -> None:
    """LeaveGroup takes the name out of the group, and its tasks go to others immediately."""
    world.policy = IMMEDIATE
    old = world.processes["follower"]
    old.cut_off = True
    new = world.start("follower", predecessor=Predecessor.UNKNOWN)
    world.run(after_ms)
    new.leave()
    world.run_until(lambda: new.state.phase is Phase.LEFT, within_ms=SESSION_MS + 1_000)
    world.run_until(
        lambda: world.running("leader") | world.running("other") == frozenset(TASKS), within_ms=3 * SESSION_MS
    )


def test_who_took_over_the_name_of_a_process_that_has_ended_leaves_at_once(world: World) -> None:
    world.policy = IMMEDIATE
    world.kill("follower")
    new = world.start("follower")
    new.leave()
    world.run_until(lambda: world.settled, within_ms=SESSION_MS // 2)
    assert new.state.phase is Phase.LEFT
    assert world.running("leader") | world.running("other") == frozenset(TASKS)
